"""Priors of fields on a mesh."""
