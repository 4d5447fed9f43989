"""Meshes, readings, priors of fields, and linear equations on finite elements."""
