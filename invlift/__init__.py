"""Posterior conductivity fields from a mesh and a few accurate sensors.

The pieces compose in one direction: read a mesh and sensors, choose a prior, assemble the forward
map, put the problem together, :func:`sample` it and look at the :class:`Posterior`.

Names are imported when they are first used: `import invlift` alone does not start JAX, so a script
can still configure it, and the command line answers at once.
"""

import importlib

_MODULE_OF = {
    "FieldProblem": "app.build",
    "InputError": "errors",
    "InverseProblem": "inverse.problem",
    "Mesh": "fem.mesh.mesh",
    "Posterior": "posterior",
    "Readings": "posterior",
    "Sensors": "fem.sensors",
    "assemble_poisson": "fem.assembly",
    "build_posterior": "app.results",
    "build_problem": "app.build",
    "check_problem": "app.checks",
    "enable_x64": "precision",
    "field_posterior": "app.results",
    "half_normal_noise": "inverse.noise",
    "independent_prior": "fem.priors.independent",
    "inverse_problem": "inverse.problem",
    "jax_problem": "inverse.problem",
    "known_noise": "inverse.noise",
    "locate": "fem.sensors",
    "lognormal_noise": "inverse.noise",
    "matern_prior": "fem.priors.matern",
    "mesh_from_arrays": "fem.mesh.mesh",
    "read_mesh": "fem.mesh.mesh",
    "read_problem": "app.config",
    "read_sensors": "fem.sensors",
    "sample": "app.sampling",
    "sensors_from_arrays": "fem.sensors",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str):
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'invlift' has no attribute {name!r}")
    return getattr(importlib.import_module(f"invlift.{_MODULE_OF[name]}"), name)


def __dir__():
    return __all__
