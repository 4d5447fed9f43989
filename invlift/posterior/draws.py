"""The draws of a run, and what they are of: all that statistics, figures and files start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import xarray as xr

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.posterior.statistics.labelled import label, places_on
from invlift.posterior.statistics.parts import (
    Mesh,
    ReadingNoise,
    Readings,
    check_chains,
    check_fit,
    every_of,
)
from invlift.posterior.statistics.quantity import Quantity, described
from invlift.standards import NO_STANDARDS, Standards


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Draws of a run, with the mesh, the sensors and the noise of what they are of.

    Attributes
    ----------
    chains : sequence of Chain
        Draws by name, (num_draws, ...) each. Those of "predicted" and "noise_score", (num_draws,
        d), are the noise-free readings and the noise variables that explain the readings, standard
        normal before these.
    quantities : sequence of Quantity
        What the draws are of, with axes and units. A draw that is not described is a scalar or an
        array without coordinates.
    mesh, sensors : Mesh, Readings or None
        Of the fields among the quantities, to write and draw them. A sensor table may take the
        place of readings, whose `sigma`, if it has one, is the noise's scale.
    noise, standards : ReadingNoise or None, Standards
        By what new readings and the likelihood of the readings are found, and by what the sampler's
        statistics are judged: the `standards` of the run.
    num_draws_requested, compile_seconds, is_interrupted : int, float, bool or None
        Draws per chain that were asked for, time to compile what the chains ran, and whether the
        run was stopped before it was done.
    exceedance : sequence of float
        Thresholds of the conductivity, in its unit, whose probabilities of being exceeded are
        among the fields.
    materials : mapping of str to float or str
        Of a field that is made of materials, the conductivity of each by its name, or the name of
        the draws that it is.
    objections : sequence of str
        What was found about the problem before it was sampled that makes it a doubtful one.
    doubts : sequence of (str, str)
        What was found about the model at the draws, and what to do.
    boundary_flux : callable or None
        ``boundary_flux(group, experiment)``: names of the unknowns beside the field that the flux
        through a boundary group depends on, the name of the solution, and the function that makes
        fluxes, (k,), of draws of all of them, (k, N), and of the solution, (k, num_nodes), if any.
    mesh_error : (num_nodes,) array or None
        What the mesh near each node adds to the errors of the readings, in standard deviations of
        their noise: the root of a sum of squares.

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
    compile_seconds: float | None = None
    is_interrupted: bool | None = None
    exceedance: Sequence[float] = ()
    materials: Mapping[str, float | str] = field(default_factory=dict)
    objections: Sequence[str] = ()
    doubts: Sequence[tuple[str, str]] = ()
    boundary_flux: Callable[[str, str], tuple[Sequence[str], str, Callable]] | None = None
    mesh_error: np.ndarray | None = None

    def __post_init__(self) -> None:
        shapes = check_chains(self.chains)
        check_fit(shapes, self.described.values(), self.mesh, self.sensors, self.exceedance)

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.chains)

    @property
    def num_draws(self) -> int:
        """Number of draws per chain."""
        return max(map(len, self.chains[0].draws.values()))

    def draws(self, name: str) -> list[np.ndarray]:
        """Draws of one quantity: a list of (num_draws, ...) arrays, one per chain, not copied.

        Of a field for which there was no room fewer: draws 0, k, 2 k, ... with `every[name]` = k.
        """
        if name not in self.described:
            known = f"one of {', '.join(sorted(self.described))}"
            raise InputError("posterior", known, repr(name), "ask for a quantity that was stored")
        return self.all_draws[name]

    def __getitem__(self, name: str) -> xr.DataArray:
        """Draws of one quantity, with names, coordinates and unit, as an array of xarray.

        Its axes are chain, draw (or stored_draw) and those of the quantity; see `draws`. Along the
        axis node there are coordinates x, y (and z), along cell those of the cells' middles,
        cell_x, cell_y (and cell_z).
        """
        every, places = {name: every_of(self.chains, name)}, places_on(self.mesh)
        return label({name: self.draws(name)}, self.described, every, places)[name]

    @cached_property
    def described(self) -> dict[str, Quantity]:
        """What each of the draws is of, by name."""
        shapes = {name: np.shape(draws)[1:] for name, draws in self.chains[0].draws.items()}
        return described(shapes, self.quantities)

    @property
    def all_draws(self) -> dict[str, list[np.ndarray]]:
        """Draws of every quantity by name, as `draws` gives them."""
        return {name: [chain.draws[name] for chain in self.chains] for name in self.described}

    @property
    def field(self) -> Quantity | None:
        """The field that the equation is about, if there is one."""
        fields = (each for each in self.described.values() if each.place and not each.is_derived)
        return next(fields, None)
