"""Setting JAX up: before it starts, and too late."""

import os
import subprocess
import sys

import pytest

PROBE = """
import invlift, jax
from invlift.precision import computes_on_calling_thread
if {is_late}: jax.numpy.zeros(1)
invlift.enable_x64()
invlift.enable_x64()
print(jax.numpy.zeros(1).dtype, computes_on_calling_thread(), jax.device_count())
"""


@pytest.mark.parametrize("is_late", [False, True])
def test_set_up_before_and_after_jax_starts(is_late):
    environment = {key: value for key, value in os.environ.items() if key != "PJRT_NPROC"}
    found = subprocess.run(
        [sys.executable, "-c", PROBE.format(is_late=is_late)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert found.stdout.split() == ["float64", str(not is_late), "1"], found.stderr
