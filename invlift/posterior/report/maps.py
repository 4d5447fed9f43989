"""Maps of a body: the mesh, fields in the plane or on slices and on the surface, sensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LightSource, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from invlift.errors import InputError
from invlift.posterior.names import FIELD, SOLUTION
from invlift.posterior.plots import (
    CHAIN_COLOURS,
    FAINT,
    INK,
    colour_limits,
    draw_bar,
    draw_outline,
    draw_sensors,
    draw_values,
    new_figure,
    with_unit,
)
from invlift.posterior.report.charts import Picture, number, picture
from invlift.posterior.report.content import Body, FieldDraws, Group
from invlift.posterior.slices import AXIS_NAMES, FlatMesh, flatten, slice_tetrahedra

#: Width of a map, in inches.
WIDTH = 3.1
#: From where a surface is seen: words, and degrees round the vertical axis.
SIDES = {"from the front": -60, "from behind": 120}
STATISTICS = {
    "mean": "Posterior mean", "q05": "5 % quantile", "q50": "Median", "q95": "95 % quantile",
}  # fmt: skip
#: Residuals up to this size do not reach the ends of their colour scale.
MIN_REACH = 3.0
ABOVE = "conductivity_above_"
#: What the colours of maps mean.
NOTES = {
    "conductivity": "conductivity k, logarithmic scale",
    SOLUTION: "solution u, in the unit of the readings",
}
#: Name, caption and note of maps on scales of their own.
LOG_SD = f"{FIELD}_sd", "Log-conductivity, standard deviation", "0.1 is about 10 % of k"
REDUCTION = "variance_reduction", "Variance reduction", "share of prior variance removed"
CONVERGENCE = (
    (f"{FIELD}_r_hat", "R-hat", ""), (f"{FIELD}_ess_bulk", "Effective sample size", ""),
)  # fmt: skip
#: Colour of what belongs to no boundary group.
NO_GROUP = "#c9ccd2"


class Scale(NamedTuple):
    """Which number has which colour."""

    norm: Normalize
    colour_map: str
    is_share: bool = False


class Family(NamedTuple):
    """Maps that belong together; `note` says what their colours mean."""

    title: str
    note: str
    pictures: list[Picture]


def scale_of(fields: Iterable[np.ndarray], colour_map: str, kind: str = "") -> Scale:
    """A scale from the smallest to the largest finite value of some fields.

    `kind` is "log" for equal ratios, for which only positive values count; "share" for 0 to 100 %.
    """
    if kind == "share":
        return Scale(Normalize(0.0, 1.0), colour_map, is_share=True)
    values = np.concatenate([np.ravel(field) for field in fields])
    if kind == "log":
        logs = colour_limits(np.log(values[values > 0]))
        return Scale(LogNorm(np.exp(logs.vmin), np.exp(logs.vmax)), colour_map)
    return Scale(colour_limits(values), colour_map)


def colours_of(groups: tuple[Group, ...]) -> list[str]:
    """A colour for each boundary group; they repeat after six."""
    return [CHAIN_COLOURS[index % len(CHAIN_COLOURS)] for index in range(len(groups))]


@dataclass(frozen=True, eq=False)
class Maps:
    """Draws a body, with its sensors, (d, dim), and the units of its fields by name."""

    body: Body
    sensors: np.ndarray
    units: Mapping[str, str]

    @cached_property
    def flats(self) -> list[FlatMesh]:
        """The body in the plane, or its slices through the middle of its bounding box."""
        points, cells = self.body.points, self.body.cells
        if self.body.dim == 2:
            return [flatten(points, cells)]
        middle, found = (points.min(axis=0) + points.max(axis=0)) / 2, []
        for axis in (2, 1, 0):
            with suppress(InputError):  # of a body in several pieces, with nothing in the middle
                found.append(slice_tetrahedra(points, cells, axis, float(middle[axis])))
        return found

    # -- sections of a page ------------------------------------------------------------------------

    def mesh(self, groups: tuple[Group, ...]) -> list[Picture]:
        """The mesh with boundary groups and sensors; in space the surface from two sides."""
        body = self.body
        num = f"{len(body.points)} nodes and {len(body.cells)} cells, {len(self.sensors)} sensors"
        text = f"Mesh of {num}, and the boundary groups"
        if body.dim == 3:
            return [
                picture(self._surface(groups, azimuth), f"Surface, {side}", f"{text}, {side}.")
                for side, azimuth in SIDES.items()
            ]
        with new_figure(*self._size) as figure:
            ax = figure.subplots()
            ax.triplot(*body.points.T, body.cells, color=FAINT, linewidth=0.4)
            for colour, group in zip(colours_of(groups), groups, strict=True):
                edges = body.points[group.facets]
                ax.add_collection(LineCollection(edges, colors=colour, linewidths=2.5))
            if len(self.sensors):
                draw_sensors(ax, self.sensors)
            ax.set(aspect="equal", xlabel="x")
            ax.set_ylabel("y", rotation=0)
        return [picture(figure, "Mesh", f"{text}.")]

    def families(self) -> Iterator[Family]:
        """All fields of the posterior there are."""
        names = [*self.body.on_nodes, *self.body.on_cells]
        means = [name for name in names if name.endswith("_mean")]
        bases = {name.removesuffix("_mean") for name in means if not name.endswith("_mcse_mean")}
        bases = sorted(bases - {FIELD}, key=lambda base: (base == SOLUTION, base))
        units = {base: self.units.get(base, "") for base in bases}
        for base in bases:
            note = NOTES.get(base) or with_unit(base, units[base])
            captions = {f"{base}_{key}": caption for key, caption in STATISTICS.items()}
            kind = "log" if base == "conductivity" else ""
            yield Family(base.capitalize(), note, self._maps(captions, "viridis", kind))
        title = "{}, standard deviation"
        sds = [(f"{base}_sd", title.format(base.capitalize()), units[base]) for base in bases]
        yield self._on_own_scales("What is known", [LOG_SD, *sds, REDUCTION])
        above = {n: f"Above {n.removeprefix(ABOVE)}" for n in names if n.startswith(ABOVE)}
        note = "share of the draws in which the conductivity is above the threshold"
        yield Family("Probability of exceeding", note, self._maps(above, "cividis", "share"))
        yield self._on_own_scales("Convergence of the chains", CONVERGENCE)

    def _on_own_scales(self, title: str, fields: Iterable[tuple[str, str, str]]) -> Family:
        pictures = []
        for name, caption, note in fields:
            kind = "share" if name == REDUCTION[0] else ""
            pictures += self._maps({name: caption}, "cividis", kind, note)
        return Family(title, "each map on its own scale", pictures)

    def draws(self, draws: FieldDraws) -> list[Picture]:
        """The mean and some draws of the conductivity, in the colours of its maps."""
        fields = [self.body.find(f"conductivity_{key}") for key in STATISTICS]
        scale = scale_of([each for each in fields if each is not None], "viridis", "log")
        maps = [self._map("conductivity_mean", "Posterior mean, to compare")]
        for values, chain, num in zip(draws.values, draws.chains, draws.numbers, strict=True):
            title = f"Chain {chain}, draw {num}"
            maps.append((np.exp(values), title, f"Map of a draw of the conductivity: {title}."))
        return self._drawn(maps, "conductivity_mean" in self.body.on_nodes, scale)

    def residuals(self, residuals: np.ndarray) -> Picture:
        """The sensors in the colours of their standardised residuals, (d,)."""
        reach = float(np.max(np.abs(residuals[np.isfinite(residuals)]), initial=MIN_REACH))
        scale = Scale(Normalize(-reach, reach), "RdBu_r")
        with new_figure(*self._size, layout=None) as figure:
            self._prepare(figure, scale, c=residuals, cmap=scale.colour_map, norm=scale.norm)
            text = "Map of the sensors in the colours of their residuals; the table has them."
            return picture(figure, "Residuals where the sensors are", text, "", scale.colour_map)

    # -- maps --------------------------------------------------------------------------------------

    def _maps(
        self, captions: Mapping[str, str], colour_map: str, kind: str = "", note: str = ""
    ) -> list[Picture]:
        """Maps of the fields there are, on one scale."""
        there = {name: text for name, text in captions.items() if self.body.find(name) is not None}
        if not there:
            return []
        scale = scale_of(map(self.body.find, there), colour_map, kind)
        maps = [self._map(name, text) for name, text in there.items()]
        return self._drawn(maps, next(iter(there)) in self.body.on_nodes, scale, note)

    def _map(self, name: str, title: str) -> tuple[np.ndarray, str, str]:
        """Values, title and words of a map."""
        values = self.body.find(name)
        low, high = (number(end(values)) for end in (np.min, np.max))
        return values, title, f"Map: {name.replace('_', ' ')}, {title}, from {low} to {high}."

    def _drawn(
        self, maps: Iterable[tuple[np.ndarray, str, str]], is_nodal: bool, scale: Scale, note=""
    ) -> list[Picture]:
        """Fields in the plane or on the slices, with outline, sensors and colour bar.

        All are drawn on one sheet, one after the other: what they share takes longer than they do.
        """
        found = []
        with new_figure(*self._size, layout=None) as figure:
            axes = self._prepare(figure, scale)
            for values, title, text in maps:
                colours = scale.colour_map, scale.norm
                drawn = [
                    draw_values(ax, flat, flat.shown(values, is_nodal), is_nodal, *colours)
                    for flat, ax in zip(self.flats, axes, strict=True)
                ]
                found.append(picture(figure, title, text, note, scale.colour_map))
                for each in drawn:
                    each.remove()
        return found

    @property
    def _size(self) -> tuple[float, float]:
        """Width and height of a map, in inches."""
        extent = np.ptp(self.body.points, axis=0)
        if self.body.dim == 2:
            height = WIDTH * float(np.clip(extent[1] / extent[0], 0.15, 1.5))
            return WIDTH + 0.75, height + 0.2
        across, up = self._shares
        return WIDTH + 0.3, WIDTH * up.sum() / across.sum() + 0.7

    @property
    def _shares(self) -> np.ndarray:
        """Of slices, widths of the two columns and heights of the two rows, (2, 2)."""
        extent = np.ptp(self.body.points, axis=0)
        return np.clip(extent / extent.max(), 0.15, 1)[[[0, 1], [1, 2]]]

    def _prepare(self, figure: Figure, scale: Scale, **colours) -> list[Axes]:
        """Axes for each flat piece, with outline and sensors, and the colour bar.

        Slices lie as in a technical drawing, in one scale of length: from above, below it from the
        front, and beside this from the side. Axes are placed by hand, as matplotlib's layout takes
        as long as the rest of the drawing.
        """
        width, mark, box = self._size[0], 1.0, {}
        if self.body.dim == 2:
            axes = [figure.add_axes((0.1 / width, 0.02, (WIDTH - 0.1) / width, 0.96))]
            beside = axes[0]
        else:
            mark, box = 0.35, {"box": (0.25, 0.05, 0.08, 0.9)}  # sensors lie on each other
            across, up = self._shares
            place = {"left": 0.02, "right": 0.98, "bottom": 0.02, "top": 0.93}
            place |= {"width_ratios": across, "height_ratios": up, "hspace": 0.15, "wspace": 0.08}
            grid = figure.subplots(2, 2, gridspec_kw=place)
            slices = {(0, 1): grid[0, 0], (0, 2): grid[1, 0], (1, 2): grid[1, 1]}
            axes, beside = [slices[flat.axes] for flat in self.flats], grid[0, 1]
        beside.set_axis_off()
        for flat, ax in zip(self.flats, axes, strict=True):
            ax.set_axis_off()
            ax.set_title(flat.place.removeprefix("slice "), fontsize=8)
            draw_outline(ax, flat)
            if len(self.sensors):
                draw_sensors(ax, self.sensors[:, list(flat.axes)], share=mark, **colours)
        draw_bar(beside, scale.colour_map, scale.norm, is_share=scale.is_share, **box)
        return axes

    def _surface(self, groups: tuple[Group, ...], azimuth: float) -> Figure:
        """The surface of a body in space in the colours of its groups; sensors show through."""
        facets = self.body.cells[:, [(1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)]].reshape(-1, 3)
        counted = {"axis": 0, "return_index": True, "return_counts": True}
        keys, first, count = np.unique(np.sort(facets, axis=1), **counted)
        colour_of = {
            tuple(key): colour
            for colour, group in zip(colours_of(groups), groups, strict=True)
            for key in np.sort(group.facets, axis=1).tolist()
        }
        colours = [colour_of.get(tuple(key), NO_GROUP) for key in keys[count == 1].tolist()]
        facets = facets[first[count == 1]]
        with new_figure(WIDTH + 0.6, WIDTH, layout=None) as figure:
            ax = figure.add_axes((0, 0.03, 0.9, 0.97), projection="3d", computed_zorder=False)
            ax.view_init(25, azimuth)
            light = LightSource(90 - (azimuth - 25), 45)
            style = {"facecolors": colours, "shade": True, "lightsource": light}
            ax.add_collection3d(Poly3DCollection(self.body.points[facets], **style))
            if len(self.sensors):
                ax.scatter(*self.sensors.T, c="white", edgecolors=INK, depthshade=False, s=14)
            ax.auto_scale_xyz(*self.body.points.T)
            ax.set_aspect("equal")
            ax.set(**{f"{axis}label": axis for axis in AXIS_NAMES})
            for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                axis.set_major_locator(MaxNLocator(4))
        return figure
