"""Shared test settings: double precision, and a fixed random key."""

import jax
import pytest

import invlift

invlift.one_core_per_chain()
invlift.enable_x64()


@pytest.fixture
def rng_key():
    """A fixed key: statistical tests must not depend on the day."""
    return jax.random.key(20260101)
