"""Targets of samplers, built from an inverse problem."""
