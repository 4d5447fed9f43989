"""Kernels, one module a family."""
