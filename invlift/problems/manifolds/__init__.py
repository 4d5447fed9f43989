"""Problems on a manifold that a person gives."""
