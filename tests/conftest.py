"""Shared test settings: double precision, and a fixed random key."""

import jax
import pytest

jax.config.update("jax_enable_x64", True)


@pytest.fixture
def rng_key():
    """A fixed key: statistical tests must not depend on the day."""
    return jax.random.key(20260101)
