"""Posterior conductivity fields from a mesh and a few accurate sensors.

The pieces compose in one direction: read a mesh and sensors, choose a prior, assemble the forward
map, put the problem together, :func:`sample` it and look at the :class:`Posterior`.

Names are imported when they are first used: `import invlift` alone does not start JAX, so a script
can still configure it, and the command line answers at once.
"""

import importlib

_MODULE_OF = {
    "AffinePrior": "inverse.priors.base",
    "Alternate": "samplers.kernels.alternate",
    "Distribution": "inverse.distributions",
    "FieldProblem": "app.build",
    "Experiment": "fem.experiments",
    "Form": "fem.equation_assembly",
    "Input": "fem.equation_assembly",
    "ForwardModel": "inverse.models.base",
    "Functionals": "fem.equation_assembly",
    "InputError": "errors",
    "InverseProblem": "inverse.problem",
    "KERNELS": "samplers.kernels",
    "Kernel": "samplers.kernels.base",
    "ManifoldProblem": "inverse.targets.given_manifold",
    "Mesh": "fem.mesh.mesh",
    "Noise": "inverse.noise",
    "Plan": "samplers.chains.plan",
    "Positive": "inverse.distributions",
    "Posterior": "posterior",
    "Prior": "inverse.priors.base",
    "Quantity": "posterior",
    "Readings": "posterior",
    "Sensors": "fem.sensors",
    "StandardNormalPrior": "inverse.priors.standard_normal",
    "Unknown": "inverse.unknowns",
    "assemble_experiments": "fem.experiments",
    "assemble_poisson": "fem.assembly",
    "build_posterior": "app.results",
    "build_problem": "app.build",
    "calibrate": "app.calibrate",
    "check_problem": "app.checks",
    "compare": "app.compare",
    "electrode_model": "fem.electrodes",
    "enable_x64": "precision",
    "exponential": "inverse.distributions",
    "field_posterior": "app.results",
    "from_numpyro": "app.numpyro_model",
    "gaussian_noise": "inverse.noise",
    "half_cauchy": "inverse.distributions",
    "half_normal": "inverse.distributions",
    "hierarchical_matern_prior": "fem.priors.hierarchical_matern",
    "independent_prior": "fem.priors.independent",
    "inverse_problem": "inverse.problem",
    "jax_problem": "inverse.problem",
    "known_noise": "inverse.noise",
    "laplace_approximation": "inverse.laplace_approximation",
    "laplace_noise": "inverse.noise",
    "linear_equation": "fem.equation_assembly",
    "load": "app.results",
    "locate": "fem.readings.locate",
    "lognormal": "inverse.distributions",
    "manifold_problem": "inverse.manifold_problem",
    "matern_prior": "fem.priors.matern",
    "mesh_from_arrays": "fem.mesh.mesh",
    "normal": "inverse.distributions",
    "ode_problem": "inverse.ode_problem",
    "potential_noise": "inverse.noise",
    "random_field": "fem.random_field",
    "read_mesh": "fem.mesh.mesh",
    "read_problem": "app.problem_file",
    "read_sensors": "fem.sensors",
    "run_chains": "samplers.chains.parallel",
    "sample": "app.sampling",
    "sensors_from_arrays": "fem.sensors",
    "solve_ode": "inverse.models.solve_ode",
    "sphere": "inverse.manifolds",
    "diffusion_problem": "inverse.diffusion_problem",
    "state_space": "inverse.state_space",
    "stiefel": "inverse.manifolds",
    "student_t_noise": "inverse.noise",
    "uniform": "inverse.distributions",
    "unknown_scale": "inverse.noise",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str):
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'invlift' has no attribute {name!r}")
    return getattr(importlib.import_module(f"invlift.{_MODULE_OF[name]}"), name)


def __dir__():
    return __all__
