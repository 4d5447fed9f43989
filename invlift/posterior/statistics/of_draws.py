"""Statistics of the draws of a run: scalars, fields, their diagnostics, and the fit."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pandas as pd

from invlift.posterior.draws import PosteriorDraws
from invlift.posterior.names import MESH_ERROR
from invlift.posterior.statistics.diagnostics import Diagnostics, diagnose
from invlift.posterior.statistics.fields import fields_of, of_all_draws
from invlift.posterior.statistics.fit import Fit
from invlift.posterior.statistics.scalars import (
    scalar_draws,
    summarise,
    unknown_entries,
    vector_draws,
)


class PosteriorStatistics(PosteriorDraws):
    """Draws of a run with their statistics, each computed when it is first asked for."""

    @cached_property
    def fit(self) -> Fit:
        """How the readings fit: predictions, residuals, likelihoods, leave-one-out."""
        return Fit(self)

    @cached_property
    def scalars(self) -> dict[str, list[np.ndarray]]:
        """Draws of the scalars by name: lists of (num_draws,) arrays, one per chain.

        All scalars that are drawn (such as `sigma`); of each field its arithmetic mean
        `log_conductivity_field_mean` and standard deviation `log_conductivity_field_std` (divisor
        N) over its nodes or cells; of a vector of more than 1,000 entries, or of more than 50 along
        an axis of numbers, the same; then the entries of other vectors, as `sigma[0]`, or
        `rate[hare]` where they have coordinates, last of those along an axis of numbers.
        """
        return scalar_draws(self.all_draws, self.described)

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

        Long are those of more than 1,000 entries, or of more than 50 along an axis of numbers.
        Entries that are known, such as those of a path where it is read exactly, are left out.
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
        """The `fields` at the nodes and those in the cells, by "node" and "cell"."""
        by_place = fields_of(
            self.chains, self.described, self.quantities, self.exceedance, self.materials
        )
        if self.mesh_error is not None:
            by_place["node"][MESH_ERROR] = self.mesh_error
        return by_place

    def fields(self) -> dict[str, np.ndarray]:
        """Posterior statistics of the fields, by name.

        For a field problem `log_conductivity_mean`, `_sd`, `_q05`, `_q50`, `_q95`, `_r_hat`,
        `_ess_bulk`, `_ess_tail`, `_mcse_mean`, `_mcse_sd`, `conductivity_mean`, `_q05`, `_q50`,
        `_q95`, for each threshold `conductivity_above_{threshold}`, and for each of the materials
        `probability_{material}`; with a prior standard deviation also `variance_reduction` and
        `log_conductivity_prior_sd`; each one value per node or per cell. Always per node,
        `solution_mean` and `solution_sd` if the chains have kept moments of the solution, and
        `solution_q05`, `_q50`, `_q95` if they have kept draws of it. Of any other field the same as
        of the log-conductivity, without the conductivity, and its variance reduction by name.
        `mesh_error` per node, where the mesh makes errors of the readings that are notable.
        """
        return self.fields_by_place["node"] | self.fields_by_place["cell"]

    def summary(self) -> pd.DataFrame:
        """Table of the scalars: see `scalars.summarise`."""
        return summarise(self.scalars, self.scalar_diagnostics)
