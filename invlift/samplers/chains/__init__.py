"""Chains: running one or several, adaptation, and saving."""
