"""Targets on a manifold and the structure of their Jacobians."""
