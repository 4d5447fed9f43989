"""Models: from coefficients to observations."""
