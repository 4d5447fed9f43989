"""Models: from coefficients to noise-free observations."""
