"""Problems of models in time: differential equations, state spaces, diffusions."""
