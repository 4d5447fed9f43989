"""Priors: from standard normal variables to coefficients."""
