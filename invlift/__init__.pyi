"""What type checkers and editors know of names that are imported when first used."""

from invlift.app.build import FieldProblem as FieldProblem
from invlift.app.build import build_problem as build_problem
from invlift.app.calibrate import calibrate as calibrate
from invlift.app.checks import check_problem as check_problem
from invlift.app.compare import compare as compare
from invlift.app.numpyro_model import from_numpyro as from_numpyro
from invlift.app.problem_file import read_problem as read_problem
from invlift.app.results import build_posterior as build_posterior
from invlift.app.results import field_posterior as field_posterior
from invlift.app.results import load as load
from invlift.app.sampling import sample as sample
from invlift.errors import InputError as InputError
from invlift.fem.assembly import assemble_poisson as assemble_poisson
from invlift.fem.electrodes import electrode_model as electrode_model
from invlift.fem.equation_assembly import Form as Form
from invlift.fem.equation_assembly import Functionals as Functionals
from invlift.fem.equation_assembly import Input as Input
from invlift.fem.equation_assembly import linear_equation as linear_equation
from invlift.fem.experiments import Experiment as Experiment
from invlift.fem.experiments import assemble_experiments as assemble_experiments
from invlift.fem.mesh.mesh import Mesh as Mesh
from invlift.fem.mesh.mesh import mesh_from_arrays as mesh_from_arrays
from invlift.fem.mesh.mesh import read_mesh as read_mesh
from invlift.fem.priors.hierarchical_matern import (
    hierarchical_matern_prior as hierarchical_matern_prior,
)
from invlift.fem.priors.independent import independent_prior as independent_prior
from invlift.fem.priors.matern import matern_prior as matern_prior
from invlift.fem.random_field import random_field as random_field
from invlift.fem.readings.locate import locate as locate
from invlift.fem.sensors import Sensors as Sensors
from invlift.fem.sensors import read_sensors as read_sensors
from invlift.fem.sensors import sensors_from_arrays as sensors_from_arrays
from invlift.inverse.diffusion_problem import diffusion_problem as diffusion_problem
from invlift.inverse.distributions import Distribution as Distribution
from invlift.inverse.distributions import Positive as Positive
from invlift.inverse.distributions import exponential as exponential
from invlift.inverse.distributions import half_cauchy as half_cauchy
from invlift.inverse.distributions import half_normal as half_normal
from invlift.inverse.distributions import lognormal as lognormal
from invlift.inverse.distributions import normal as normal
from invlift.inverse.distributions import uniform as uniform
from invlift.inverse.laplace_approximation import laplace_approximation as laplace_approximation
from invlift.inverse.manifold_problem import manifold_problem as manifold_problem
from invlift.inverse.manifolds import sphere as sphere
from invlift.inverse.manifolds import stiefel as stiefel
from invlift.inverse.models.base import ForwardModel as ForwardModel
from invlift.inverse.models.solve_ode import solve_ode as solve_ode
from invlift.inverse.noise import Noise as Noise
from invlift.inverse.noise import gaussian_noise as gaussian_noise
from invlift.inverse.noise import known_noise as known_noise
from invlift.inverse.noise import laplace_noise as laplace_noise
from invlift.inverse.noise import potential_noise as potential_noise
from invlift.inverse.noise import student_t_noise as student_t_noise
from invlift.inverse.noise import unknown_scale as unknown_scale
from invlift.inverse.ode_problem import ode_problem as ode_problem
from invlift.inverse.priors.base import AffinePrior as AffinePrior
from invlift.inverse.priors.base import Prior as Prior
from invlift.inverse.priors.standard_normal import StandardNormalPrior as StandardNormalPrior
from invlift.inverse.problem import InverseProblem as InverseProblem
from invlift.inverse.problem import inverse_problem as inverse_problem
from invlift.inverse.problem import jax_problem as jax_problem
from invlift.inverse.state_space import state_space as state_space
from invlift.inverse.targets.given_manifold import ManifoldProblem as ManifoldProblem
from invlift.inverse.unknowns import Unknown as Unknown
from invlift.posterior import Posterior as Posterior
from invlift.posterior import Quantity as Quantity
from invlift.posterior import Readings as Readings
from invlift.precision import enable_x64 as enable_x64
from invlift.samplers.chains.parallel import run_chains as run_chains
from invlift.samplers.chains.plan import Plan as Plan
from invlift.samplers.kernels import KERNELS as KERNELS
from invlift.samplers.kernels.alternate import Alternate as Alternate
from invlift.samplers.kernels.base import Kernel as Kernel

__all__: list[str]
