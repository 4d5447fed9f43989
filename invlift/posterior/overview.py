"""What the overview of a posterior shows: which fields, in which colours, with which units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from invlift.posterior.names import FIELD
from invlift.posterior.plots import Panel
from invlift.posterior.quantity import Quantity


def field_panels(fields: Mapping[str, np.ndarray], quantities: Iterable[Quantity]) -> list[Panel]:
    """Panels of fields of a model of one's own: of each mean, sd and variance reduction.

    Parameters
    ----------
    fields : mapping of str to (num_nodes,) or (num_cells,) array
        From `Posterior.fields`.
    quantities : iterable of Quantity
        The fields.
    """
    panels = []
    for each in quantities:
        name, is_nodal = each.name, each.place == "node"
        panels += [
            Panel(
                f"{name}, posterior mean", fields[f"{name}_mean"], is_nodal, "viridis", each.unit
            ),
            Panel(f"{name}, posterior sd", fields[f"{name}_sd"], is_nodal, "magma", each.unit),
        ]
        if f"{name}_variance_reduction" in fields:
            reduction = fields[f"{name}_variance_reduction"]
            panels.append(
                Panel(f"{name}, variance reduction", reduction, is_nodal,
                      "cividis", "of prior variance", is_share=True)
            )  # fmt: skip
    return panels


def overview_panels(
    fields: Mapping[str, np.ndarray],
    is_nodal: bool,
    readings: np.ndarray | None = None,
    *,
    conductivity_unit: str = "",
    solution_name: str = "Solution",
    solution_unit: str = "",
) -> list[Panel]:
    """Panels of the overview.

    Parameters
    ----------
    fields : mapping of str to (num_nodes,) or (num_cells,) array
        From `Posterior.fields`.
    is_nodal : bool
        Whether the log-conductivity lives on the nodes.
    readings : (d,) array or None
        Of the solution, to fill the sensors' marks with.
    conductivity_unit, solution_name, solution_unit : str
        See `Posterior.plot_fields`.

    Returns
    -------
    list of Panel
        Mean and standard deviation of the log-conductivity; mean of the solution, or of the
        conductivity if no solution was kept; variance reduction, if it is known.
    """
    log_unit = f"ln k, k in {conductivity_unit}" if conductivity_unit else ""
    panels = [
        Panel("Log-conductivity, posterior mean", fields[f"{FIELD}_mean"], is_nodal,
              "viridis", log_unit),
        Panel("Log-conductivity, posterior sd", fields[f"{FIELD}_sd"], is_nodal, "magma"),
    ]  # fmt: skip
    if "solution_mean" in fields:
        panels.append(
            Panel(f"{solution_name}, posterior mean", fields["solution_mean"], True,
                  "inferno", solution_unit, sensor_values=readings)
        )  # fmt: skip
    else:
        panels.append(
            Panel("Conductivity, posterior mean", fields["conductivity_mean"], is_nodal,
                  "plasma", conductivity_unit)
        )  # fmt: skip
    if "variance_reduction" in fields:
        panels.append(
            Panel("Variance reduction", fields["variance_reduction"], is_nodal,
                  "cividis", "of prior variance", is_share=True)
        )  # fmt: skip
    return panels
