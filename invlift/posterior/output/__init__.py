"""Files of a posterior, and its report."""
