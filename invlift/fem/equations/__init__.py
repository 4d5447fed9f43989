"""Equations: forms, conditions, their assembly, and forward models."""
