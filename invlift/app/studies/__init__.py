"""What takes many runs: calibration, comparison, simulation."""
