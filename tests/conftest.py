"""Shared test settings: double precision, and a fixed random key."""

import signal

import jax
import pytest

import invlift

invlift.enable_x64()  # before anything starts JAX

from invlift.samplers.run import single_threaded_blas  # noqa: E402

# A shell that runs the tests in the background has them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)
single_threaded_blas()  # from here on, for tests that compute without sampling


@pytest.fixture
def rng_key():
    """A fixed key: statistical tests must not depend on the day."""
    return jax.random.key(20260101)
