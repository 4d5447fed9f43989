"""What a row of a sensor table is a reading of: one module for each kind."""
