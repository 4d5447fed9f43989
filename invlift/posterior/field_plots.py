"""The figure of the fields of a posterior, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from invlift.errors import InputError
from invlift.posterior.names import FIELD
from invlift.posterior.plots import INK, Panel, draw_panel, label_axes, new_figure
from invlift.posterior.quantity import Quantity
from invlift.posterior.slices import flatten

if TYPE_CHECKING:
    from invlift.posterior.posterior import Posterior

#: Width of a field, in inches.
WIDTH = 3.3


def plot_fields(
    posterior: Posterior,
    length_unit: str,
    conductivity_unit: str,
    solution_name: str,
    solution_unit: str,
) -> Figure:
    """Draw fields two in a row, with the sensors on top: see `Posterior.plot_fields`."""
    mesh, field = posterior.mesh, posterior.field
    if mesh is None or field is None:
        raise InputError(
            "plot of fields", "a posterior on a mesh", "a model without one", "plot the chains"
        )
    fields = posterior.fields()
    if field.name == FIELD:
        readings = getattr(posterior.sensors, "values", None)
        solution = solution_name, solution_unit
        panels = _overview(fields, field.place == "node", readings, conductivity_unit, *solution)
    else:
        quantities = posterior.described.values()
        on_mesh = [each for each in quantities if each.place and not each.is_derived]
        panels = [panel for each in on_mesh for panel in _panels_of(fields, each)]
    flat, points = flatten(mesh.points, mesh.cells), getattr(posterior.sensors, "points", None)
    across, up = np.ptp(flat.points, axis=0)
    height = WIDTH * float(np.clip(up / across, 0.2, 1.6))
    num_columns = min(2, len(panels))
    num_rows = -(-len(panels) // num_columns)
    with new_figure(num_columns * (WIDTH + 1.3), num_rows * (height + 0.55)) as figure:
        axes = figure.subplots(num_rows, num_columns, squeeze=False, sharex=True, sharey=True)
        for panel, ax in zip(panels, axes.flat, strict=False):
            draw_panel(ax, flat, panel, points)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        label_axes(axes, flat, length_unit)
        if flat.place:
            place = f"{flat.place} {length_unit}".rstrip()
            note = "" if points is None else ", sensors projected onto it"
            figure.suptitle(place + note, color=INK, fontsize=10)
    return figure


def _panels_of(fields: dict[str, np.ndarray], quantity: Quantity) -> list[Panel]:
    """Panels of a field of a model of one's own: its mean, sd and variance reduction."""
    name, is_nodal, unit = quantity.name, quantity.place == "node", quantity.unit
    panels = [
        Panel(f"{name}, posterior mean", fields[f"{name}_mean"], is_nodal, "viridis", unit),
        Panel(f"{name}, posterior sd", fields[f"{name}_sd"], is_nodal, "magma", unit),
    ]
    return panels + _reduction(fields, is_nodal, f"{name}_variance_reduction", f"{name}, variance")


def _reduction(fields, is_nodal: bool, name: str, title: str) -> list[Panel]:
    if name not in fields:
        return []
    style = is_nodal, "cividis", "of prior variance", True
    return [Panel(f"{title} reduction", fields[name], *style)]


def _overview(
    fields: dict[str, np.ndarray],
    is_nodal: bool,
    readings: np.ndarray | None,
    conductivity_unit: str,
    solution_name: str,
    solution_unit: str,
) -> list[Panel]:
    """Panels of a field problem."""
    log_unit = f"ln k, k in {conductivity_unit}" if conductivity_unit else ""
    mean, sd, title = fields[f"{FIELD}_mean"], fields[f"{FIELD}_sd"], "Log-conductivity, posterior"
    conductivity = fields["conductivity_mean"], is_nodal, "plasma", conductivity_unit
    third = Panel("Conductivity, posterior mean", *conductivity)
    if "solution_mean" in fields:
        solution = fields["solution_mean"], True, "inferno", solution_unit, False, readings
        third = Panel(f"{solution_name}, posterior mean", *solution)
    return [
        Panel(f"{title} mean", mean, is_nodal, "viridis", log_unit),
        Panel(f"{title} sd", sd, is_nodal, "magma"),
        third,
        *_reduction(fields, is_nodal, "variance_reduction", "Variance"),
    ]
