"""One run: starts, sampling, progress, and its results."""
