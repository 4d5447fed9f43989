"""Meshes: files, arrays, checks, geometry, refinement and cuts."""
