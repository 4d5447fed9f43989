"""A problem file, and the problem that it describes."""
