"""Fields that change in time, S du/dt - div(exp(phi) grad u) = f, without time steps."""
