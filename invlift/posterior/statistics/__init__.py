"""What is computed from draws."""
