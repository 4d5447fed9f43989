"""Where chains start: fits to the data, ways onto a manifold, and the search for one."""
