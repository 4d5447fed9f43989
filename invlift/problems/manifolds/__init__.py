"""Problems on a manifold that the user defines."""
