"""Posterior conductivity fields from a mesh and a few accurate sensors.

The pieces compose in one direction: read a mesh and sensors, choose a prior, assemble the forward
map, put the problem together, :func:`sample` it and look at the :class:`Posterior`.
"""

from invlift.build import FieldProblem, build_posterior, build_problem, field_posterior
from invlift.checks import check_problem
from invlift.config import read_problem
from invlift.errors import InputError
from invlift.fem.assembly import assemble_poisson
from invlift.fem.independent import independent_prior
from invlift.fem.matern import matern_prior
from invlift.fem.mesh import Mesh, mesh_from_arrays, read_mesh
from invlift.fem.sensors import Sensors, locate, read_sensors, sensors_from_arrays
from invlift.inverse.noise import half_normal_noise, known_noise, lognormal_noise
from invlift.inverse.problem import InverseProblem, inverse_problem, jax_problem
from invlift.posterior import Posterior, Readings
from invlift.precision import enable_x64
from invlift.sample import sample

__all__ = [
    "FieldProblem",
    "InputError",
    "InverseProblem",
    "Mesh",
    "Posterior",
    "Readings",
    "Sensors",
    "assemble_poisson",
    "build_posterior",
    "build_problem",
    "check_problem",
    "enable_x64",
    "field_posterior",
    "half_normal_noise",
    "independent_prior",
    "inverse_problem",
    "jax_problem",
    "known_noise",
    "locate",
    "lognormal_noise",
    "matern_prior",
    "mesh_from_arrays",
    "read_mesh",
    "read_problem",
    "read_sensors",
    "sample",
    "sensors_from_arrays",
]
