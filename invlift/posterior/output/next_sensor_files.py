"""Files of the proposed places for further sensors: a table, fields and a figure."""

from __future__ import annotations

from pathlib import Path

from invlift.posterior.figures.field_plots import Panel, flatten, plot_maps
from invlift.posterior.figures.style import Panels, saved
from invlift.posterior.output.files import write_fields, write_table
from invlift.posterior.statistics.next_sensors import NextSensors
from invlift.posterior.statistics.of_draws import PosteriorStatistics


def plot_next_sensors(
    posterior: PosteriorStatistics, proposals: NextSensors, length_unit: str = ""
) -> Panels:
    """Plot the shares as fields, with the sensors and the numbers of the best places."""
    panels = [
        Panel(
            f"One more reading of the {name.replace('_', ' ')}", shares, True, "viridis",
            "share of the remaining variance",
        )
        for name, shares in proposals.shares.items()
    ]  # fmt: skip
    mesh, points = posterior.mesh, posterior.readings.points
    maps = plot_maps(mesh, panels, points, num_columns=3, length_unit=length_unit)
    axes = dict(zip(proposals.shares, maps, strict=False))
    drawn = list(flatten(mesh.points, mesh.cells).axes)
    for rank, row in proposals.best.iterrows():
        place = mesh.points[row["node"]][drawn]
        style = {"boxstyle": "circle", "facecolor": "white", "linewidth": 0.7}
        style = {"ha": "center", "va": "center", "fontsize": 8, "bbox": style}
        axes[row["solution"]].annotate(str(rank), place, **style)
    return maps


def write_next_sensors(
    posterior: PosteriorStatistics, proposals: NextSensors, folder: Path
) -> list[Path]:
    """Write table, fields and figure of :func:`next_sensors` to the folder of a run."""
    paths = [folder / f"next_sensors.{ending}" for ending in ("csv", "vtu", "png")]
    write_table(paths[0], proposals.best)
    shares = {f"next_sensor_{name}": values for name, values in proposals.shares.items()}
    write_fields(paths[1], posterior.mesh.points, posterior.mesh.cells, shares, {})
    saved(plot_next_sensors(posterior, proposals), paths[2])
    return paths
