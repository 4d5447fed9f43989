"""Meshes: arrays, files and their checks, geometry."""
