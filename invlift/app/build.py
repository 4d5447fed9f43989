"""From a problem file's content to the objects that compute: mesh, sensors, inverse problem."""

from __future__ import annotations

from dataclasses import dataclass

from invlift.app.config import ProblemSpec
from invlift.app.config_schema import HalfNormalSpec, LognormalSpec, MaternSpec
from invlift.errors import InputError
from invlift.fem.assembly import assemble_poisson
from invlift.fem.mesh.mesh import Mesh, check_anchored, read_mesh
from invlift.fem.priors.independent import IndependentPrior, independent_prior
from invlift.fem.priors.matern import MaternPrior, matern_alpha, matern_prior
from invlift.fem.sensors import Observation, Sensors, locate, read_sensors
from invlift.inverse.noise import Noise, half_normal_noise, known_noise, lognormal_noise
from invlift.inverse.problem import InverseProblem, inverse_problem


@dataclass(frozen=True)
class FieldProblem:
    """An inverse problem for a conductivity field, with the mesh and the sensors it came from.

    Attributes
    ----------
    mesh : Mesh
    sensors : Sensors
        Those in use, d of them.
    observation : Observation
        Where each sensor of the table lies, those left out included.
    problem : InverseProblem
    """

    mesh: Mesh
    sensors: Sensors
    observation: Observation
    problem: InverseProblem


def build_problem(spec: ProblemSpec, *, needs_values: bool = True) -> FieldProblem:
    """Read what a problem file names and put the inverse problem together.

    Parameters
    ----------
    spec : ProblemSpec
    needs_values : bool
        Whether the sensor table must have readings; if not, they are taken as zero wherever there
        are none, and the noise as known.

    Returns
    -------
    FieldProblem

    Raises
    ------
    InputError
        If a file, group, field or sensor is not what it should be.
    """
    try:
        return _built(spec, needs_values)
    except InputError as error:
        if not error.where.startswith("["):
            raise
        # The library says which key; which file it is in is known here.
        where = spec.where_of(error.where)
        raise InputError(where, error.expected, error.found, error.remedy) from None


def _built(spec: ProblemSpec, needs_values: bool) -> FieldProblem:
    mesh = read_mesh(spec.mesh.file)
    sensors = read_sensors(spec.observations.file, mesh.dim, needs_values=needs_values)
    observation = locate(mesh, sensors, spec.observations.outside)
    sensors = sensors.take(observation.kept)
    prior = _prior(spec, mesh)
    forward = assemble_poisson(
        mesh,
        observation,
        **boundary_conditions(spec, mesh),
        location=prior.location,
    )
    # Without readings there is no noise in them yet, of whatever scale.
    noise = _noise(spec, sensors) if needs_values else known_noise(1.0)
    problem = inverse_problem(forward, prior, noise, sensors.values)
    return FieldProblem(mesh, sensors, observation, problem)


def boundary_conditions(spec: ProblemSpec, mesh: Mesh) -> dict:
    """Source and boundary conditions in the form :func:`assemble_poisson` takes them."""
    pde = spec.pde
    for kind in ("dirichlet", "neumann", "robin"):
        for group in getattr(pde, kind):
            mesh.facets(group, spec.where("pde", kind))
    check_anchored(mesh, [*pde.dirichlet, *pde.robin], spec.where("pde"))
    source = pde.source
    if isinstance(source, str):
        source = mesh.field(source, spec.where("pde", "source"))
    elif isinstance(source, dict):
        for subdomain in source:
            mesh.cells_of(subdomain, spec.where("pde", "source"))
    dirichlet = {
        group: mesh.point_field(value, spec.where("pde", "dirichlet", group))
        if isinstance(value, str)
        else value
        for group, value in pde.dirichlet.items()
    }
    robin = {group: (each.coefficient, each.ambient) for group, each in pde.robin.items()}
    return {"source": source, "dirichlet": dirichlet, "neumann": pde.neumann, "robin": robin}


def _prior(spec: ProblemSpec, mesh: Mesh) -> MaternPrior | IndependentPrior:
    if isinstance(spec.prior, MaternSpec):
        matern_alpha(spec.prior.smoothness, mesh.dim, spec.where("prior", "smoothness"))
        return matern_prior(
            mesh,
            correlation_range=spec.prior.range,
            std=spec.prior.std,
            smoothness=spec.prior.smoothness,
            mean=spec.prior.mean,
            boundary=spec.prior.boundary,
        )
    for key in ("mean", "std"):
        value = getattr(spec.prior, key)
        if isinstance(value, dict):
            for subdomain in value:
                mesh.cells_of(subdomain, spec.where("prior", key))
    return independent_prior(mesh, per=spec.prior.per, mean=spec.prior.mean, std=spec.prior.std)


def _noise(spec: ProblemSpec, sensors: Sensors) -> Noise:
    sigma = spec.noise.sigma
    if isinstance(sigma, LognormalSpec):
        return lognormal_noise(sigma.location, sigma.scale)
    if isinstance(sigma, HalfNormalSpec):
        return half_normal_noise(sigma.scale)
    if sigma != "column":
        return known_noise(sigma)
    if sensors.sigma is None:
        raise InputError(
            spec.where("noise", "sigma"),
            f"a column sigma in {sensors.name}",
            "none",
            "add the column, or give [noise] sigma a number or a distribution",
        )
    return known_noise(sensors.sigma)
