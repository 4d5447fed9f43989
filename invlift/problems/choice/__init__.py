"""Choice of the readings, or combinations of readings, that are lifted."""
