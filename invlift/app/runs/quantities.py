"""Descriptions of the draws of a problem."""

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

#: Axes of fields, by the location of their prior.
_PLACES = {"nodes": "node", "cells": "cell"}


def names_of_readings(problem: InverseProblem) -> list[str] | None:
    """Return the names of the d readings of a problem, or None.

    Readings of a table without names have names such as "row 7", if their rows are not consecutive.
    """
    if (sensors := problem.sensors) is not None:
        if sensors.labels is not None:
            return list(sensors.labels)
        rows = sensors.rows  # rows of several tables may be equal, and are then not unique names
        is_part = np.any(np.diff(rows) != 1) and np.unique(rows).size == rows.size
        return [f"row {row}" for row in rows] if is_part else None
    return list(labels_of(problem.model.readings)) if problem.model.readings else None


def quantities_of(problem: InverseProblem, *, with_prior: bool = False) -> tuple[Quantity, ...]:
    """Describe the draws of a problem that have axes, a unit or a known prior.

    `with_prior` adds the prior standard deviation of fields and the prior density of numbers.
    """
    prior, scale = problem.prior, problem.noise.scale
    readings = {"sensor": names_of_readings(problem)}

    known = {each.first: each.known_cells for each in problem.model.on_mesh.fields}

    def field(name: str, part, first: int = 0, unit: str = "") -> Quantity:
        prior_sd = part.pointwise_std() if with_prior else None
        of_cells = known.get(first)
        if part.mesh is None or np.size(of_cells) != part.mesh.num_cells:  # other elements
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
    """Return the quantities with the units given in a problem, and further ones with units."""
    known = {each.name: each for each in quantities}
    of_solutions = dict.fromkeys(problem.model.solutions, ())
    for name, shape in (problem.shapes_of_draws() | of_solutions).items():
        unit = problem.units.get(name, problem.units.get(name.removesuffix("_path")))
        if unit is not None:
            known[name] = replace(known.get(name, _named(name, shape, "", ())), unit=unit)
    of_axes = {axis: unit for axis, unit in problem.units.items() if axis in problem.axes}

    def own(axes):
        return {axis: unit for axis, unit in of_axes.items() if axis in axes}

    # Predictions have a coordinate along each axis for each reading.
    return [
        replace(each, axis_units=of_axes if each.name == PREDICTED else own(each.axes))
        for each in known.values()
    ]


def quantities_of_target(target: Target) -> tuple[Quantity, ...]:
    """Describe the draws of a target: its unknowns by name, if it has names."""
    if not isinstance(target, ManifoldProblem):
        return ()
    parts = zip(target.shapes, target.units, target.axes, strict=True)
    return tuple(_named(name, shape, unit, axes) for (name, shape), unit, axes in parts)


def _named(name: str, shape: tuple[int, ...], unit: str, axes: Axes) -> Quantity:
    """Describe an unknown by name; axes without names are numbered."""
    return Quantity(name, dict(axes) or numbered_axes(name, len(shape)), unit)


def _distributions_of(problem: InverseProblem) -> dict[str, Distribution]:
    """Return the prior distributions of unknown numbers by name; for a scale, of each group."""
    noise = problem.noise
    scales = {SIGMA: noise.scale} | {name: getattr(noise, name) for name in noise.shape_parameters}
    return problem.prior.distributions | {
        name: each for name, scale in scales.items() for each in scale.distributions.values()
    }


@program
def _curve(part: Distribution):
    """Return values of a number and their densities, at equally spaced normal scores -6 ... 6."""
    values = jax.vmap(part.transform)(jnp.linspace(-6.0, 6.0, 481)[:, None])
    return values, jnp.exp(jax.vmap(part.log_density)(values))


def field_of(problem: InverseProblem) -> Quantity:
    """Return the description of the field of a problem on a mesh."""
    return next(each for each in quantities_of(problem) if each.place)


def field_prior(problem: InverseProblem) -> Prior:
    """Return the prior of the field, which may be a part of the prior of the problem."""
    return problem.prior.parts.get(field_of(problem).name, problem.prior)


def _is_on(part: Any, mesh: Mesh | None) -> bool:
    """Return whether an unknown is a field on the mesh."""
    return part.mesh is not None and part.mesh.is_same(mesh)


def recorded(problem: InverseProblem | Target) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
    """Return descriptions of the draws of a problem or target, and names of large draws."""
    if not isinstance(problem, InverseProblem):
        return quantities_of_target(problem), ()
    quantities = quantities_of(problem)
    return quantities, fields_of(problem, quantities)


def fields_of(problem: InverseProblem, quantities: Sequence[Quantity]) -> tuple[str, ...]:
    """Return names of draws that may be too large to be stored: fields and long vectors."""
    kept = problem.model.kept_axes
    shapes = problem.prior.shapes + tuple(
        (name, tuple(len(at) for _, at in axes)) for name, axes in kept
    )
    long = [name for name, shape in shapes if np.prod(shape) > MAX_ENTRIES]
    return tuple(dict.fromkeys([*(each.name for each in quantities if each.place), *long]))
