"""Priors of fields on a mesh, one module each."""
