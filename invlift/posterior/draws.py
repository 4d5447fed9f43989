"""Draws of a run and their description: the input of statistics, figures and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import xarray as xr

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.posterior.names import FIELD, NOISE_SCORE, PREDICTED
from invlift.posterior.statistics.labelled import label, places_on
from invlift.posterior.statistics.parts import (
    BoundaryFlux,
    Mesh,
    ReadingNoise,
    Readings,
    check_chains,
    every_of,
)
from invlift.posterior.statistics.quantity import Quantity, described
from invlift.standards import NO_STANDARDS, Standards


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Draws of a run, with the mesh, the sensors and the noise of its problem.

    Attributes
    ----------
    chains : sequence of Chain
        Draws by name, (num_draws, ...) each. "predicted", (num_draws, d), are the noise-free
        readings. "noise_score", (num_draws, d), are the noise variables that explain the readings;
        their prior is standard normal.
    quantities : sequence of Quantity
        Description of each quantity that is drawn, with axes and units. Without a description a
        quantity is a scalar or an array without coordinates.
    mesh, sensors : Mesh, Readings or None
        Mesh of the fields and readings, to write and plot them. A sensor table may replace
        `Readings`; its `sigma`, if it has one, is the scale of the noise.
    noise, standards : ReadingNoise or None, Standards
        The noise gives new readings and the likelihood of the readings. The standards are limits
        for the statistics of the sampler: the `standards` of the run.
    num_draws_requested, num_chains_requested : int or None
        Numbers of draws per chain and of chains that the user requested.
    compile_seconds, is_interrupted : float, bool or None
        Compile time in seconds, and whether the run was stopped before its end.
    exceedance : sequence of float
        Thresholds of the conductivity, in its unit. The probability of exceeding each is one of
        the fields.
    materials : mapping of str to float or str
        For a field of several materials: the conductivity of each material by name, or the name of
        the draws of this conductivity.
    objections : sequence of str
        Doubts about the problem from the check before the run.
    doubts : sequence of (str, str)
        Doubts about the model at the draws, with a remedy each.
    boundary_flux : callable or None
        ``boundary_flux(group, experiment)`` returns the
        :class:`~invlift.posterior.statistics.parts.BoundaryFlux` of a boundary group.
    mesh_error : (num_nodes,) array or None
        Contribution of the mesh near each node to the errors of the readings, in standard
        deviations of their noise: the root of a sum of squares.

    Raises
    ------
    InputError
        On construction, if the parts do not fit together or hold no draws.
    """

    chains: Sequence[Chain]
    quantities: Sequence[Quantity] = ()
    mesh: Mesh | None = None
    sensors: Readings | None = None
    noise: ReadingNoise | None = None
    standards: Standards = NO_STANDARDS
    num_draws_requested: int | None = None
    num_chains_requested: int | None = None
    compile_seconds: float | None = None
    is_interrupted: bool | None = None
    exceedance: Sequence[float] = ()
    materials: Mapping[str, float | str] = field(default_factory=dict)
    objections: Sequence[str] = ()
    doubts: Sequence[tuple[str, str]] = ()
    boundary_flux: Callable[[str, str], BoundaryFlux] | None = None
    mesh_error: np.ndarray | None = None

    def __post_init__(self) -> None:
        shapes, mesh, places = check_chains(self.chains), self.mesh, {}
        if mesh is not None:
            places = {"node": (len(mesh.points),), "cell": (len(mesh.cells),)}
        named = ((each.name, places.get(each.place)) for each in self.described.values())
        needed = {name: shape for name, shape in named if shape}
        if self.sensors is not None:
            needed |= dict.fromkeys((PREDICTED, NOISE_SCORE), np.shape(self.sensors.values))
        for name, shape in needed.items():
            if shapes.get(name, shape) != shape:
                expected, found = f"a value for each node, cell or reading, {shape}", shapes[name]
                remedy = "pass the mesh and sensors that were used in the run"
                raise InputError(f"draws of {name}", expected, f"{found}", remedy)
        thresholds = self.exceedance
        if len(thresholds) and not (FIELD in shapes and np.all(np.asarray(thresholds) > 0)):
            expected = f"positive numbers, and draws of {FIELD}"
            remedy = "give conductivities in their unit, or leave exceedance out"
            raise InputError("posterior, exceedance", expected, f"{thresholds}", remedy)

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.chains)

    @property
    def num_draws(self) -> int:
        """Number of draws per chain."""
        return max(map(len, self.chains[0].draws.values()))

    def draws(self, name: str) -> list[np.ndarray]:
        """Return the draws of a quantity: (num_draws, ...) arrays, one per chain, not copied.

        If memory was too small for all draws of a field, only draws 0, k, 2 k, ... are stored, with
        `every[name]` = k.
        """
        if name not in self.described:
            known = f"one of {', '.join(sorted(self.described))}"
            raise InputError("posterior", known, repr(name), "ask for a quantity that was stored")
        return self.all_draws[name]

    def __getitem__(self, name: str) -> xr.DataArray:
        """Return the draws of a quantity as an array of xarray with axes, coordinates and unit.

        The axes are chain, draw (or stored_draw) and the axes of the quantity; see `draws`. The
        axis node has coordinates x, y (and z). The axis cell has the coordinates of the cell
        centres: cell_x, cell_y (and cell_z).
        """
        every, places = {name: every_of(self.chains, name)}, places_on(self.mesh)
        return label({name: self.draws(name)}, self.described, every, places)[name]

    @cached_property
    def described(self) -> dict[str, Quantity]:
        """Description of each quantity that is drawn, by name."""
        shapes = {name: np.shape(draws)[1:] for name, draws in self.chains[0].draws.items()}
        return described(shapes, self.quantities)

    @cached_property
    def readings(self) -> Readings:
        """The sensors as `Readings`: what they do not have is empty, all of it without sensors."""
        names = [each.name for each in fields(Readings) if hasattr(self.sensors, each.name)]
        known = {name: getattr(self.sensors, name) for name in names}
        return Readings(**{"values": np.zeros(0)} | known)

    @property
    def all_draws(self) -> dict[str, list[np.ndarray]]:
        """Draws of every quantity by name, as returned by `draws`."""
        return {name: [chain.draws[name] for chain in self.chains] for name in self.described}

    @property
    def field(self) -> Quantity | None:
        """The unknown field of the equation, if there is one."""
        fields = (each for each in self.described.values() if each.place and not each.is_derived)
        return next(fields, None)
