"""Problems that are written as NumPyro models."""
