"""Inverse problems and their lift onto a manifold; see `invlift` for the public names."""
