"""Models of electrodes, and tables of voltages."""
