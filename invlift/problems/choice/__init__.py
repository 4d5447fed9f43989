"""Which readings, and which combinations of them, are lifted."""
