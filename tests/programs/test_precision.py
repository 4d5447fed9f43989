"""Double precision is switched on when asked for, and not before."""

import subprocess
import sys

PROBE = """
import invlift
from invlift.fem.mesh import mesh
from invlift.samplers.chains import parallel as run
import jax
print(jax.numpy.zeros(1).dtype)
invlift.enable_x64()
print(jax.numpy.zeros(1).dtype)
"""


def test_double_precision_is_switched_on_when_asked_for():
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    assert found.stdout.split() == ["float32", "float64"], found.stderr
