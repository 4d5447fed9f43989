"""Setting JAX up: before it starts and too late, by a version that may block threads and others."""

import os
import subprocess
import sys

import pytest

PROBE = """
import os, invlift, jax, jaxlib.version
from invlift.precision import can_run_in_threads
jaxlib.version.__version_info__ = {version}
if {is_late}: jax.numpy.zeros(1)
invlift.enable_x64()
invlift.enable_x64()
print(jax.numpy.zeros(1).dtype, can_run_in_threads(), os.environ.get("PJRT_NPROC"))
print(jax.device_count())
"""


@pytest.mark.parametrize(
    ("version", "is_late", "expected"),
    [
        ((0, 10, 2), False, ["True", "1"]),
        ((0, 10, 2), True, ["False", "None"]),
        ((0, 11, 0), True, ["False", "None"]),
        ((0, 11, 1), False, ["True", "None"]),
        ((0, 12, 0, 1), True, ["True", "None"]),
    ],
)
def test_set_up_before_and_after_jax_starts(version, is_late, expected):
    environment = {key: value for key, value in os.environ.items() if key != "PJRT_NPROC"}
    found = subprocess.run(
        [sys.executable, "-c", PROBE.format(version=version, is_late=is_late)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert found.stdout.split() == ["float64", *expected, "1"], found.stderr
