"""Studies with many runs or simulations: calibration, comparison, simulation."""
