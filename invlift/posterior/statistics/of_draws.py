"""Statistics of the draws of a run: scalars, fields, their diagnostics, and the fit."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pandas as pd

from invlift.posterior.draws import PosteriorDraws
from invlift.posterior.names import MESH_ERROR, vector_of
from invlift.posterior.statistics.diagnostics import Diagnostics, diagnose
from invlift.posterior.statistics.fields import fields_of, of_all_draws
from invlift.posterior.statistics.fit import Fit
from invlift.posterior.statistics.scalars import (
    scalar_draws,
    summarise,
    unknown_entries,
    vector_draws,
)
from invlift.units import with_unit


class PosteriorStatistics(PosteriorDraws):
    """Draws of a run with their statistics, each computed at first use."""

    @cached_property
    def fit(self) -> Fit:
        """Fit of the readings: predictions, residuals, likelihoods, leave-one-out."""
        return Fit(self)

    @cached_property
    def scalars(self) -> dict[str, list[np.ndarray]]:
        """Draws of the scalars by name: lists of (num_draws,) arrays, one per chain.

        First come all scalars that are drawn (such as `sigma`). Then come the arithmetic mean
        `log_conductivity_field_mean` and the standard deviation `log_conductivity_field_std`
        (divisor N) of each field over its nodes or cells. Vectors of more than 1,000 entries, or of
        more than 50 along an axis of numbers, have the same. Last come the entries of other
        vectors, as `sigma[0]`, or `rate[hare]` with coordinates; entries along an axis of numbers
        are at the end.
        """
        return scalar_draws(self.all_draws, self.described)

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the `scalars` in tables and figures, with units, by name."""
        titles = {}
        for name in self.scalars:
            of = vector_of(name).removesuffix("_field_mean").removesuffix("_field_std")
            known = self.described.get(vector_of(name), self.described.get(of))
            titles[name] = with_unit(name, known.unit if known else "")
        return titles

    @cached_property
    def scalar_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics of each of the `scalars`, with arrays of size 1."""
        return {
            name: diagnose([chain[:, None] for chain in chains], name)
            for name, chains in self.scalars.items()
        }

    @cached_property
    def vector_diagnostics(self) -> dict[str, Diagnostics]:
        """Diagnostics, (N,), of long vectors, flattened matrices and further fields, by name.

        Vectors are long if they have more than 1,000 entries, or more than 50 along an axis of
        numbers. Known entries, such as those of a path with exact readings, are left out.
        """
        vectors = vector_draws(self.all_draws, self.described)
        if self.field:
            vectors.pop(self.field.name, None)
        diagnostics = {}
        for name, draws in vectors.items():
            is_unknown, whole = unknown_entries(draws), of_all_draws(self.chains, name)
            stored = diagnose([chain[:, is_unknown] for chain in draws], name)
            keys = {"r_hat", "ess_bulk"} & {*whole}
            diagnostics[name] = replace(
                stored, **{key: whole[key].ravel()[is_unknown] for key in keys}
            )
        return diagnostics

    @cached_property
    def fields_by_place(self) -> dict[str, dict[str, np.ndarray]]:
        """The `fields` at nodes and in cells, by "node" and "cell"."""
        by_place = fields_of(self)
        if self.mesh_error is not None:
            by_place["node"][MESH_ERROR] = self.mesh_error
        return by_place

    @property
    def placed_fields(self) -> dict[str, tuple[np.ndarray, bool]]:
        """The `fields` by name, each with whether it is at nodes."""
        places = self.fields_by_place.items()
        return {name: (x, place == "node") for place, each in places for name, x in each.items()}

    def fields(self) -> dict[str, np.ndarray]:
        """Return the posterior statistics of the fields, by name.

        A field problem has `log_conductivity_mean`, `_sd`, `_q05`, `_q50`, `_q95`, `_r_hat`,
        `_ess_bulk`, `_ess_tail`, `_mcse_mean`, `_mcse_sd`, `conductivity_mean`, `_q05`, `_q50`,
        `_q95`, for each threshold `conductivity_above_{threshold}`, and for each material
        `probability_{material}`. With a prior standard deviation it also has `variance_reduction`
        and `log_conductivity_prior_sd`. Each has one value per node or per cell. The solution is
        always per node: `solution_mean` and `solution_sd` if the chains stored its moments, and
        `solution_q05`, `_q50`, `_q95` if they stored draws. Any other field has the statistics of
        the log-conductivity and its variance reduction, with its name, but none of the
        conductivity. `mesh_error`, per node, exists if the mesh makes notable errors of readings.
        """
        return self.fields_by_place["node"] | self.fields_by_place["cell"]

    def summary(self) -> pd.DataFrame:
        """Return the table of the scalars: see `scalars.summarise`."""
        return summarise(self.scalars, self.scalar_diagnostics)
