"""Factors of Gram matrices, and systems of equations from products."""
