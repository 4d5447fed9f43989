"""Kernels that are there to compare with, and what others are built on: usable by name as any."""
