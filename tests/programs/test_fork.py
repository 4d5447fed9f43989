"""A process that was forked after JAX had begun: it would wait for ever."""

import os
import warnings

import jax.numpy as jnp

from invlift.errors import InputError
from invlift.programs.compilation import program


@program
def double(x):
    return 2.0 * x


def test_a_forked_process_is_told_so():
    assert double(jnp.ones(1)) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX, and of Python: that threads are not there
        child = os.fork()
    if not child:
        status = 1
        try:
            double(jnp.ones(1))
        except InputError as error:
            status = 0 if "spawn" in error.remedy else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert double(jnp.ones(1)) == 2.0
