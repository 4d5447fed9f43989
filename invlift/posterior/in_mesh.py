"""Draws of fields at places of a mesh: values at points, means over parts, fluxes."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.posterior import labelled
from invlift.posterior.chains import every_of
from invlift.posterior.names import FIELD, SOLUTION
from invlift.posterior.quantity import Quantity


class DrawsInMesh:
    """Methods of a posterior that take draws of its fields to places of the mesh."""

    def at(self, points: np.ndarray, name: str | None = None) -> xr.DataArray:
        """Draws of a field at points.

        Parameters
        ----------
        points : (k, dim) array
            Positions, in the length unit of the mesh.
        name : str or None
            The field, "solution" say; by default the one that the equation is about.

        Returns
        -------
        xarray.DataArray
            Axes chain, draw (or stored_draw, where not all draws are stored) and point.

        Raises
        ------
        InputError
            If there is no such field, or a point is outside the mesh.
        """
        quantity = self._field_of(name)
        found = self._applied(quantity, self.mesh.values_at(points, quantity.place), ("point",))
        axes = zip("xyz", np.transpose(points), strict=False)
        return found.assign_coords({axis: ("point", values) for axis, values in axes})

    def mean_over(self, group: str | None = None, name: str | None = None) -> xr.DataArray:
        """Draws of the mean of a field over a part of the mesh.

        Parameters
        ----------
        group : str or None
            A subdomain or boundary group of the mesh; by default the whole body.
        name : str or None
            As for `at`.

        Returns
        -------
        xarray.DataArray
            Axes chain and draw (or stored_draw).

        Raises
        ------
        InputError
            If there is no such field or group.
        """
        quantity = self._field_of(name)
        matrix = self.mesh.mean_over(group, quantity.place)
        return self._applied(quantity, matrix, ("part",)).squeeze("part")

    def flux(self, group: str) -> xr.DataArray:
        """Draws of the flux into the body through a boundary group.

        The integral of exp(phi) du/dn over the group, n outwards. Where u is held, it is the
        consistent flux, by the residual of the discrete equation (Carey 1982; Hughes, Engel, Mazzei
        & Larson 2000, section 2), which balances the source exactly and is of second order; else
        the integral of the gradients in the cells behind the boundary, of first order.

        Parameters
        ----------
        group : str
            A boundary group of the mesh, or "boundary".

        Returns
        -------
        xarray.DataArray
            Axes chain and draw (or stored_draw, of the draws for which both field and solution are
            stored), with attribute `units`: C U in the plane, for each unit of thickness, and C U L
            in space, with the units of docs/notation.md.

        Raises
        ------
        InputError
            If there is no such group, a facet of it is inside the body, or the posterior is not
            that of a field problem with draws of its solution.
        """
        if self.boundary_flux is None or not (self._has(FIELD) and self._has(SOLUTION)):
            raise InputError(
                "posterior, flux",
                "a field problem with stored draws of its solution",
                "none" if self.boundary_flux is None else "no draws of it",
                "take the posterior that build_posterior makes of such a problem",
            )
        every = {name: every_of(self.chains, name) for name in (FIELD, SOLUTION)}
        step = max(every.values())  # a power of two, as the other is
        parts = [
            [chain[:: step // every[name]] for chain in self.draws(name)]
            for name in (FIELD, SOLUTION)
        ]
        draws = [self.boundary_flux(group, *both) for both in zip(*parts, strict=True)]
        unit = "C U L" if np.shape(self.mesh.points)[1] == 3 else "C U"
        return self._labelled(Quantity("flux", {}, unit), draws, step)

    def _field_of(self, name: str | None) -> Quantity:
        """The field of a name."""
        known = {each.name: each for each in self._described.values() if each.place}
        found = self._field if name is None else known.get(name)
        if found is None or self.mesh is None:
            names = ", ".join(known) if self.mesh else ""
            raise InputError(
                "posterior",
                f"a field, one of {names}" if names else "draws of a field, and its mesh",
                "none" if name is None else repr(name),
                "ask for one that was stored",
            )
        return found

    def _applied(self, quantity: Quantity, matrix: csr_array, axes: tuple[str]) -> xr.DataArray:
        """Draws of a linear functional of a field."""
        name = quantity.name
        draws = [np.asarray(matrix @ np.transpose(values)).T for values in self.draws(name)]
        found = Quantity(name, dict.fromkeys(axes), quantity.unit)
        return self._labelled(found, draws, every_of(self.chains, name))

    def _labelled(self, found: Quantity, draws: list[np.ndarray], every: int) -> xr.DataArray:
        """Draws, every so-many-th of them, with their axes."""
        name, steps = found.name, {found.name: every}
        return next(labelled.build_groups({name: draws}, {name: found}, every=steps))[1][name]
