"""Construction of the Matern prior of a field, with known or unknown range and deviation."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import numpy as np

from invlift.errors import InputError, as_number, as_numbers
from invlift.fem.fields.base import MAX_STD, MIN_STD, Nominal
from invlift.fem.fields.hierarchical_matern import HierarchicalMaternPrior, of_known_parameters
from invlift.fem.fields.hyperpriors import checked, log_moments
from invlift.fem.fields.matern import (
    MaternPrior,
    assemble,
    factorise,
    log_variance_without_tau,
)
from invlift.fem.mesh.mesh import Mesh
from invlift.keywords import earlier_names, renamed
from invlift.programs.precision import require_float64
from invlift.unknowns.distributions import Distribution


@earlier_names(correlation_range="range")
def matern_prior(
    mesh: Mesh,
    *,
    range: float | Distribution,
    std: float | Distribution,
    smoothness: float,
    mean: float | np.ndarray = 0.0,
    boundary: str = "neumann",
) -> MaternPrior | HierarchicalMaternPrior:
    """Build a Matern prior on the nodes of a mesh.

    Parameters
    ----------
    mesh : Mesh
    range : float or distribution
        Distance at which the correlation has fallen to about 0.14, in the mesh's unit of length;
        kappa = sqrt(8 nu) / range.  For an unknown range, give a distribution of a positive number,
        of invlift or NumPyro.  The range, or its median, must be between 1e-6 and 10 times the
        diameter of the mesh.
    std : float or distribution
        Nominal standard deviation of phi (dimensionless) far from the boundary.  The value, or its
        median, must be from 1e-9 to 50.
    smoothness : float
        nu > 0 with nu + dim/2 an integer.
    mean : float or (N,) array
        Prior mean of phi.
    boundary : {"neumann", "robin"}
        "neumann": the natural boundary, which increases the variance at the boundary by a factor of
        two or more (about four in corners in 2-D).  "robin": a Robin boundary, which equalises the
        standard deviation for smoothness 1.  For smoothness 2 and 3 in 2-D, the standard deviation
        is then 0.76 and 0.68 of the interior value at an edge, and about 0.6 and 0.45 in corners.

    Returns
    -------
    MaternPrior or HierarchicalMaternPrior
        Prior of N coefficients, one for each node.  It is hierarchical if range or std is unknown;
        these are then unknowns of the problem, named ``prior_range`` and ``prior_std`` in results.

    Raises
    ------
    InputError
        If a parameter is out of its range, a distribution is not that of a positive number, the
        standard deviation of its logarithm is above 2, or JAX is not in double precision.

    Notes
    -----
    The marginal variance is Gamma(nu) / (Gamma(alpha) (4 pi)^(dim/2) kappa^(2 nu) tau^2)
    (Lindgren, Rue & Lindstrom 2011, section 2).

    Examples
    --------
    >>> mesh = invlift.read_mesh("meshes/disc.msh")
    >>> prior = invlift.matern_prior(mesh, range=1.0, std=1.0, smoothness=2.0)
    >>> prior.num_white
    469
    >>> median_of_one = invlift.lognormal(0.0, 0.5)
    >>> invlift.matern_prior(mesh, range=median_of_one, std=1.0, smoothness=2.0).num_white
    470
    """
    require_float64(points=mesh.points)
    alpha = matern_alpha(smoothness, mesh.dim)
    given = {"range": checked("range", range), "std": checked("std", std)}
    medians = {}
    for name, (least, most, which, remedy) in _limits(mesh).items():
        value, found = given[name], f"{given[name]!r}"
        if isinstance(value, Distribution):
            value = medians[name] = math.exp(min(log_moments(value).log_median, 700.0))
            found = f"a median of {value!r}"
        if not least <= as_number(value) <= most:
            expected = f"a positive number, from {least:.3g} to {most:.3g}{which}"
            raise InputError(("prior", name), expected, found, remedy)
        if name not in medians:
            given[name] = float(value)
    mean = _checked_mean(mesh, mean)
    if medians:
        return _of_unknown(mesh, given, medians, float(smoothness), alpha, mean, boundary)
    return _of_known(mesh, given, float(smoothness), alpha, mean, boundary)


#: Former name of the function for priors with unknown parameters.
hierarchical_matern_prior = renamed("hierarchical_matern_prior", matern_prior)


def matern_alpha(smoothness: float, dim: int) -> int:
    """Return the operator's order alpha = smoothness + dim/2 (Lindgren et al. 2011, eq. 2).

    Parameters
    ----------
    smoothness : float
        nu > 0.
    dim : int
        Dimension of the mesh, 2 or 3.

    Raises
    ------
    InputError
        If alpha is not an integer >= 1, or smoothness is not positive.
    """
    alpha = as_number(smoothness) + dim / 2
    if not (alpha > dim / 2 and math.isclose(alpha, round(alpha), abs_tol=1e-9)):
        choices = "1, 2, 3, ..." if dim == 2 else "0.5, 1.5, 2.5, ..."
        raise InputError(
            ("prior", "smoothness"),
            f"one of {choices} on a {dim}-D mesh (smoothness + {dim}/2 must be an integer)",
            f"{smoothness!r}",
            "choose the nearest of these",
        )
    return round(alpha)


def _of_known(mesh, given, smoothness, alpha, mean, boundary) -> MaternPrior:
    matrices = assemble(mesh, boundary)
    kappa = math.sqrt(8 * smoothness) / given["range"]
    log_variance = log_variance_without_tau(smoothness, alpha, mesh.dim, math.log(kappa))
    tau = np.float64(math.exp(log_variance / 2) / given["std"])
    operator = matrices.operator(kappa)[matrices.lower]
    matrices, operator, mean, tau = jax.device_put((matrices, operator, mean, tau))
    return MaternPrior(
        mean=mean,
        factor=factorise(matrices.structure, operator),
        structure=matrices.structure,
        pattern=matrices.pattern,
        operator_values=operator,
        mass_values=matrices.mass,
        noise_scale=matrices.noise_scale,
        tau=tau,
        alpha=alpha,
        mesh=mesh,
        nominal=(Nominal(given["range"], given["std"], boundary),),
    )


def _of_unknown(mesh, given, medians, smoothness, alpha, mean, boundary) -> HierarchicalMaternPrior:
    parts = {name: part if name in medians else np.float64(part) for name, part in given.items()}
    prior = HierarchicalMaternPrior(
        mean=mean,
        matrices=assemble(mesh, boundary),
        factor=None,
        correlation_range=parts["range"],
        std=parts["std"],
        smoothness=np.float64(smoothness),
        log_variance=np.float64(log_variance_without_tau(smoothness, alpha, mesh.dim, 0.0)),
        alpha=alpha,
    )
    length, spread = (medians.get(name, given[name]) for name in ("range", "std"))
    if "std" in medians and math.isfinite(square := log_moments(given["std"]).mean_square):
        spread = math.sqrt(square)
    nominal = (Nominal(length, spread, boundary),)
    prior = replace(jax.device_put(prior), mesh=mesh, nominal=nominal)
    if "range" in medians:
        return prior
    return replace(prior, factor=of_known_parameters(prior, np.zeros(1)).factor)


def _checked_mean(mesh: Mesh, mean) -> np.ndarray:
    """Return the prior mean at the nodes, (N,), after checks."""
    expected, remedy = f"one number or {mesh.num_nodes} at the nodes", "give a field of this mesh"
    mean = as_numbers(("prior", "mean"), mean, expected, remedy)
    if mean.shape not in ((), (mesh.num_nodes,)):
        raise InputError(("prior", "mean"), expected, f"shape {mean.shape}", remedy)
    if not np.all(np.isfinite(mean)):
        raise InputError(("prior", "mean"), "finite values", "NaN or infinity", "correct it")
    return np.broadcast_to(mean, (mesh.num_nodes,))


def _limits(mesh: Mesh) -> dict[str, tuple[float, float, str, str]]:
    """Return the least and the largest range and deviation, with words for errors."""
    of_range = "give the correlation length in the length unit of the mesh"
    of_std = "give the standard deviation of the log-conductivity: 1 for factors of about e"
    # For a long range the field hardly varies in the body; its deviation grows like range / extent.
    ends = 1e-6 * mesh.diameter, 10.0 * mesh.diameter, ", ten times the extent of the mesh"
    return {"range": (*ends, of_range), "std": (MIN_STD, MAX_STD, "", of_std)}
