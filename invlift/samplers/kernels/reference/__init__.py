"""Kernels for comparison, and base classes of other kernels; a problem file can name them all."""
