"""The equation: forms, conditions, their assembly, and models made of it."""
