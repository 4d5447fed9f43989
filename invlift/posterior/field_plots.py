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
        expected = "a posterior on a mesh"
        raise InputError("plot of fields", expected, "a model without one", "plot the chains")
    if field.name == FIELD:
        panels = _overview(posterior, conductivity_unit, solution_name, solution_unit)
    else:
        quantities = posterior.described.values()
        on_mesh = [each for each in quantities if each.place and not each.is_derived]
        panels = [panel for each in on_mesh for panel in _panels_of(posterior.fields(), each)]
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
    posterior: Posterior, conductivity_unit: str, solution_name: str, solution_unit: str
) -> list[Panel]:
    """Panels of a field problem."""
    fields, is_nodal = posterior.fields(), posterior.field.place == "node"
    log_unit = f"ln k, k in {conductivity_unit}" if conductivity_unit else ""
    mean, sd, title = fields[f"{FIELD}_mean"], fields[f"{FIELD}_sd"], "Log-conductivity, posterior"
    if "solution_mean" in fields:
        style = True, "inferno", solution_unit, False, getattr(posterior.sensors, "values", None)
        third = Panel(f"{solution_name}, posterior mean", fields["solution_mean"], *style)
    else:
        style = is_nodal, "plasma", conductivity_unit
        third = Panel("Conductivity, posterior mean", fields["conductivity_mean"], *style)
    return [
        Panel(f"{title} mean", mean, is_nodal, "viridis", log_unit),
        Panel(f"{title} sd", sd, is_nodal, "magma"),
        third,
        *_reduction(fields, is_nodal, "variance_reduction", "Variance"),
    ]
