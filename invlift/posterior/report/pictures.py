"""Pictures of a body: which fields, on which views, in which colours."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from invlift.posterior.names import FIELD
from invlift.posterior.report.content import Body, FieldDraws, Group, SensorRows
from invlift.posterior.report.scales import Scale, number, scale_of, ticks
from invlift.posterior.report.views import View, flat_views, groups_on_surface, surface_view
from invlift.posterior.slices import AXIS_NAMES

#: Share of a view's longer side that is left free on every side of it.
MARGIN = 0.03
#: Width of a frame's coordinates.
WIDTH = 1000
NO_GROUP = 255


@dataclass(frozen=True)
class Figure:
    """One field, to be drawn on every view.

    Attributes
    ----------
    name : str
        By which the script finds its values.
    title, alternative : str
    """

    name: str
    title: str
    alternative: str


@dataclass(frozen=True)
class Family:
    """Fields that share a colour scale."""

    scale: Scale
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Frame:
    """What lies over a view: lines in coordinates from 0 to `WIDTH` across, downwards from 0.

    Attributes
    ----------
    place : str
    height : float
        In the same unit as `WIDTH`.
    outline, sensors : str
        Paths of SVG; the sensors are points.
    sensor_paths : tuple of str
        A path for each sensor.
    groups : tuple of str
        A path for each boundary group; none of a slice.
    across, up : tuple of (float, str)
        Ticks: place between 0 and 1, from the left and from below, and text.
    across_label, up_label : str
    """

    place: str
    height: float
    outline: str
    sensors: str
    sensor_paths: tuple[str, ...]
    groups: tuple[str, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    across_label: str
    up_label: str


@dataclass(frozen=True)
class Pictures:
    """Everything that is drawn of a body.

    Attributes
    ----------
    frames : tuple of Frame
        One for each flat view.
    conductivity, solution : Family or None
        Mean and quantiles of each; the draws share the scale of the first.
    spreads : tuple of Family
        What is known of them, of one figure each.
    data : mapping
        For the script, as JSON takes it.
    """

    frames: tuple[Frame, ...]
    conductivity: Family | None
    solution: Family | None
    spreads: tuple[Family, ...]
    data: Mapping


def pictures_of(
    body: Body, groups: tuple[Group, ...], sensors: SensorRows | None, draws: FieldDraws | None
) -> Pictures:
    """Lay out the pictures of a body.

    Parameters
    ----------
    body : Body
    groups : tuple of Group
    sensors : SensorRows or None
    draws : FieldDraws or None
    """
    views = flat_views(body.points, body.cells)
    places = np.zeros((0, 3)) if sensors is None else sensors.points
    frames = tuple(_frame(view, body, groups, places) for view in views)
    if body.dim == 3:
        views = [*views, surface_view(body.points, body.cells)]
    conductivity, solution, spreads = _families(body)
    families = [each for each in (conductivity, solution, *spreads) if each is not None]
    data = {
        "views": [_view(view) for view in views],
        "scales": [_scale(family.scale) for family in families],
        "fields": {
            figure.name: {
                "scale": index,
                "isNodal": figure.name in body.on_nodes,
                "levels": _levels(views, family.scale, body, figure.name),
            }
            for index, family in enumerate(families)
            for figure in family.figures
        },
        "draws": None,
        "groups": None,
        "sensors": places.astype(float).tolist(),
    }
    if draws is not None and conductivity is not None:
        is_nodal = f"{FIELD}_mean" in body.on_nodes
        data["draws"] = {
            "scale": 0,
            "isNodal": is_nodal,
            "labels": [
                f"chain {chain}, draw {number}"
                for chain, number in zip(draws.chains, draws.numbers, strict=True)
            ],
            "levels": [
                [
                    _packed(conductivity.scale.levels(np.exp(view.values_of(values, is_nodal))))
                    for view in views
                ]
                for values in draws.values
            ],
        }
    if body.dim == 3 and groups:
        found = groups_on_surface(views[-1], [group.facets for group in groups])
        data["groups"] = _packed(np.where(found < 0, NO_GROUP, found % NO_GROUP).astype(np.uint8))
    return Pictures(frames, conductivity, solution, spreads, data)


def _families(body: Body) -> tuple[Family | None, Family | None, tuple[Family, ...]]:
    """The fields there are: of the conductivity, of the solution, and what is known of them."""

    def figure(name: str, title: str, subject: str) -> Figure:
        values = body.find(name)
        finite = values[np.isfinite(values)]
        text = f"Map of {subject}{title[0].lower()}{title[1:]}"
        if finite.size:
            text += f", from {number(finite.min())} to {number(finite.max())}"
        return Figure(name, title, f"{text}.")

    def family(
        names: dict[str, str], label: str, colours: str, subject: str = "", **kinds: bool
    ) -> Family | None:
        fields = [body.find(name) for name in names]
        if any(values is None for values in fields):
            return None
        if kinds.get("is_share"):
            scale = Scale(label, 0.0, 1.0, colours, **kinds)
        else:
            scale = scale_of(fields, label, colours, **kinds)
        return Family(scale, tuple(figure(*each, subject) for each in names.items()))

    conductivity = family(
        {
            "conductivity_mean": "Posterior mean",
            "conductivity_q05": "5 % quantile",
            "conductivity_q50": "Median",
            "conductivity_q95": "95 % quantile",
        },
        "conductivity k, logarithmic scale",
        "viridis",
        "the conductivity, ",
        is_log=True,
    )
    quantiles = {
        "solution_q05": "5 % quantile",
        "solution_q50": "Median",
        "solution_q95": "95 % quantile",
    }
    is_kept = body.find("solution_q05") is not None  # older runs have not kept them
    solution = family(
        {"solution_mean": "Posterior mean"} | (quantiles if is_kept else {}),
        "solution u, in the unit of the readings",
        "viridis",
        "the solution, ",
    )
    spreads = (
        family(
            {f"{FIELD}_sd": "Log-conductivity, standard deviation"},
            "0.1 is about 10 % of k, 0.7 a factor of 2",
            "cividis",
        ),
        family(
            {"variance_reduction": "Variance reduction"},
            "share of prior variance removed",
            "cividis",
            is_share=True,
        ),
        family(
            {"solution_sd": "Solution, standard deviation"},
            "in the unit of the readings",
            "cividis",
        ),
    )
    return conductivity, solution, tuple(each for each in spreads if each is not None)


def _box(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Lower corner and size of a view with its margin."""
    low, high = view.points.min(axis=0), view.points.max(axis=0)
    margin = MARGIN * (high - low).max()
    return low - margin, high - low + 2 * margin


def _frame(view: View, body: Body, groups: tuple[Group, ...], sensors: np.ndarray) -> Frame:
    low, size = _box(view)
    scale = WIDTH / size[0]

    def place(points: np.ndarray) -> np.ndarray:
        return scale * np.stack(
            [points[..., 0] - low[0], size[1] - (points[..., 1] - low[1])], axis=-1
        )

    def segments(ends: np.ndarray) -> str:
        return "".join(
            f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in place(ends).reshape(-1, 4)
        )

    dots = tuple(f"M{a:.1f} {b:.1f}h0" for a, b in place(sensors[:, list(view.axes)]))
    across, up = (
        tuple(
            ((value - low[axis]) / size[axis], number(value))
            for value in ticks(low[axis], low[axis] + size[axis], 5)
        )
        for axis in (0, 1)
    )
    return Frame(
        view.place,
        scale * size[1],
        segments(view.outline),
        "".join(dots),
        dots,
        tuple(segments(body.points[group.facets]) for group in groups) if body.dim == 2 else (),
        across,
        up,
        AXIS_NAMES[view.axes[0]],
        AXIS_NAMES[view.axes[1]],
    )


def _view(view: View) -> dict:
    low, size = _box(view)
    return {
        "dim": view.points.shape[1],
        "low": low.tolist(),
        "size": size.tolist(),
        "axes": [AXIS_NAMES[axis] for axis in view.axes],
        "points": _packed((view.points - low).astype("<f4")),
        "triangles": _packed(view.triangles.astype("<u4" if len(view.points) > 65535 else "<u2")),
        "isLong": len(view.points) > 65535,
    }


def _scale(scale: Scale) -> dict:
    return {
        "colours": _packed(scale.colours()),
        "low": scale.low,
        "high": scale.high,
        "isLog": scale.is_log,
        "isShare": scale.is_share,
        "label": scale.label,
        "ticks": scale.ticks(),
        "gradient": scale.gradient(),
    }


def _levels(views: list[View], scale: Scale, body: Body, name: str) -> list[str]:
    values, is_nodal = body.find(name), name in body.on_nodes
    return [_packed(scale.levels(view.values_of(values, is_nodal))) for view in views]


def _packed(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
