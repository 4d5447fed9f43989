"""Constrained dynamics: splittings, retractions and one reversible step."""
