"""The constrained dynamics: splittings, retractions and one reversible step."""
