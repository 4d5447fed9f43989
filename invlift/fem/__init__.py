"""Meshes, sensors, priors and the forward map on linear finite elements."""
