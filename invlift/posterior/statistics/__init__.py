"""Statistics computed from draws."""
