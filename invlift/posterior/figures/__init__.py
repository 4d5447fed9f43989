"""Figures of a posterior."""
