"""Starts of chains: fits to the data, moves onto a manifold, and the search for a start."""
