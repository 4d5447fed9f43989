"""Chains: one, several, their adaptation, and how they are saved."""
