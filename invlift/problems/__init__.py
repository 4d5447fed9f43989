"""Inverse problems: unknowns, a model, noise and data; see `invlift` for the public names."""
