"""Priors: maps from standard normal variables to coefficients."""
