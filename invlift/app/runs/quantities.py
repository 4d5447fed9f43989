"""What the draws of a problem are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.fem.mesh.mesh import Mesh
from invlift.models.named_readings import labels_of
from invlift.posterior.names import NOISE_SCORE, PARAMETERS, PREDICTED, SIGMA
from invlift.posterior.statistics.quantity import MAX_ENTRIES, Quantity, numbered_axes
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.programs.compilation import program
from invlift.targets import Target
from invlift.unknowns.axes import Axes
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior

#: Axes of what lives where a prior says.
_PLACES = {"nodes": "node", "cells": "cell"}


def names_of_readings(problem: InverseProblem) -> list[str] | None:
    """Names of the d readings of a problem, if they have any.

    Their rows in the table, where they have none and are not all of its rows in order.
    """
    if (sensors := problem.sensors) is not None:
        if sensors.labels is not None:
            return list(sensors.labels)
        rows = sensors.rows  # those of several tables may be alike, and name nothing
        is_part = np.any(np.diff(rows) != 1) and np.unique(rows).size == rows.size
        return [f"row {row}" for row in rows] if is_part else None
    return list(labels_of(problem.model.readings)) if problem.model.readings else None


def quantities_of(problem: InverseProblem, *, with_prior: bool = False) -> tuple[Quantity, ...]:
    """Describe the draws of a problem, of what has axes, a unit or a known prior.

    With the prior its standard deviation of fields and its densities of numbers are computed.
    """
    prior, scale = problem.prior, problem.noise.scale
    readings = {"sensor": names_of_readings(problem)}

    known = {each.first: each.known_cells for each in problem.model.on_mesh.fields}

    def field(name: str, part, first: int = 0, unit: str = "") -> Quantity:
        prior_sd = part.pointwise_std() if with_prior else None
        of_cells = known.get(first)
        if part.mesh is None or np.size(of_cells) != part.mesh.num_cells:  # of other elements
            of_cells = None
        axes = {_PLACES[part.location]: None}
        return Quantity(name, axes, unit, prior_sd=prior_sd, known_cells=of_cells)

    if prior.location in _PLACES:
        quantities = [field(problem.model.coefficients_name, prior)]
    elif prior.shapes:
        mesh, parts = problem.mesh, zip(prior.shapes, prior.units, prior.axes, strict=True)
        quantities = [
            field(name, prior.parts[name], prior.firsts[name], unit)
            if _is_on(prior.parts[name], mesh) and not axes
            else _named(name, shape, unit, axes)
            for (name, shape), unit, axes in parts
        ]
    else:
        quantities = [Quantity(PARAMETERS, {"parameter": None})]
    is_linear = problem.model.on_mesh.is_linear
    quantities += [
        Quantity(name, {"node": None}, is_derived=True, is_linear=is_linear)
        for name in problem.model.solutions
    ]
    quantities += [Quantity(name, dict(axes)) for name, axes in problem.model.kept_axes]
    if scale.groups is not None:
        axis = {"noise_group": list(scale.names) or None} if scale.is_shared else readings
        quantities.append(Quantity(SIGMA, axis))
    if with_prior:
        curves = {name: np.stack(_curve(each)) for name, each in _distributions_of(problem).items()}
        quantities = [
            replace(each, prior_density=curves.pop(each.name, None)) for each in quantities
        ]
        quantities += [Quantity(name, prior_density=curve) for name, curve in curves.items()]
    quantities += [Quantity(name, readings, is_derived=True) for name in (PREDICTED, NOISE_SCORE)]
    return tuple(_with_units(quantities, problem) if problem.units else quantities)


def _with_units(quantities: Sequence[Quantity], problem: InverseProblem) -> list[Quantity]:
    """The same with the units that a problem was given, and what else has one."""
    known = {each.name: each for each in quantities}
    of_solutions = dict.fromkeys(problem.model.solutions, ())
    for name, shape in (problem.shapes_of_draws() | of_solutions).items():
        unit = problem.units.get(name, problem.units.get(name.removesuffix("_path")))
        if unit is not None:
            known[name] = replace(known.get(name, _named(name, shape, "", ())), unit=unit)
    of_axes = {axis: unit for axis, unit in problem.units.items() if axis in problem.axes}

    def own(axes):
        return {axis: unit for axis, unit in of_axes.items() if axis in axes}

    # Predictions have a coordinate along each axis, one for each reading.
    return [
        replace(each, axis_units=of_axes if each.name == PREDICTED else own(each.axes))
        for each in known.values()
    ]


def quantities_of_target(target: Target) -> tuple[Quantity, ...]:
    """Describe the draws of a target: unknowns by name, where it has any."""
    if not isinstance(target, ManifoldProblem):
        return ()
    parts = zip(target.shapes, target.units, target.axes, strict=True)
    return tuple(_named(name, shape, unit, axes) for (name, shape), unit, axes in parts)


def _named(name: str, shape: tuple[int, ...], unit: str, axes: Axes) -> Quantity:
    """An unknown by name; its axes are numbered where they have no names."""
    return Quantity(name, dict(axes) or numbered_axes(name, len(shape)), unit)


def _distributions_of(problem: InverseProblem) -> dict[str, Distribution]:
    """Distributions before the data of unknown numbers by name; of a scale, that of each group."""
    noise = problem.noise
    scales = {SIGMA: noise.scale} | {name: getattr(noise, name) for name in noise.shape_parameters}
    return problem.prior.distributions | {
        name: each for name, scale in scales.items() for each in scale.distributions.values()
    }


@program
def _curve(part: Distribution):
    """Values of a number and densities there, spread like draws from far out in both tails."""
    values = jax.vmap(part.transform)(jnp.linspace(-6.0, 6.0, 481)[:, None])
    return values, jnp.exp(jax.vmap(part.log_density)(values))


def field_of(problem: InverseProblem) -> Quantity:
    """The field of a problem on a mesh: its name, and whether it is at nodes or in cells."""
    return next(each for each in quantities_of(problem) if each.place)


def field_prior(problem: InverseProblem) -> Prior:
    """The prior of the field, which that of the problem may hold beside further unknowns."""
    return problem.prior.parts.get(field_of(problem).name, problem.prior)


def _is_on(part: Any, mesh: Mesh | None) -> bool:
    """Whether an unknown is a field on the mesh."""
    return part.mesh is not None and part.mesh.is_same(mesh)


def recorded(problem: InverseProblem | Target) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
    """The draws of a problem or of a target: as described, and names of those that may be large."""
    if not isinstance(problem, InverseProblem):
        return quantities_of_target(problem), ()
    quantities = quantities_of(problem)
    return quantities, fields_of(problem, quantities)


def fields_of(problem: InverseProblem, quantities: Sequence[Quantity]) -> tuple[str, ...]:
    """Names of the draws that may be too large to be kept: fields, and long vectors."""
    kept = problem.model.kept_axes
    shapes = problem.prior.shapes + tuple(
        (name, tuple(len(at) for _, at in axes)) for name, axes in kept
    )
    long = [name for name, shape in shapes if np.prod(shape) > MAX_ENTRIES]
    return tuple(dict.fromkeys([*(each.name for each in quantities if each.place), *long]))
