"""Problems with censored readings: these stay in the density, all other readings are lifted.

A censored reading, "below 0.05" say, contributes P(y <= limit | F) to the density (Tobin 1958,
"Estimation of relationships for limited dependent variables", Econometrica 26(1), eq. 4).  For
normal noise this is Phi((limit - F) / sigma).  No noise variable reproduces such a reading, so it
is not lifted.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.lifted_form import Lifted
from invlift.problems.problem import InverseProblem
from invlift.programs.pytrees import static


class UncensoredProblem(InverseProblem):
    """A problem without its censored readings, used to search for modes and starts.

    Attributes
    ----------
    asked : InverseProblem
        The problem with all d readings.
    rows : tuple of k int
        Indices of the readings that are not censored.
    """

    asked: InverseProblem = field(kw_only=True)
    rows: tuple[int, ...] = static(kw_only=True)

    @property
    def sensors(self):
        """Sensors of the k readings that are not censored; None without sensors."""
        sensors = self.asked.sensors
        return None if sensors is None else sensors.take(np.asarray(self.rows))

    def reading_asked_for(self, index: int) -> tuple[InverseProblem, int | None]:
        """As :meth:`InverseProblem.reading_asked_for`."""
        return self.asked.reading_asked_for(self.rows[index])


class LiftedUncensored(UncensoredProblem):
    """The problem of the whole posterior, in which only uncensored readings are lifted."""

    has_factor: ClassVar[bool] = True

    @property
    def whole(self) -> InverseProblem:
        """The problem with d readings."""
        return self.asked

    @property
    def searched(self) -> InverseProblem:
        """The problem without its censored readings."""
        return self.asked.searched

    def log_density_of_rest(self, readings: jax.Array, zeta: jax.Array) -> jax.Array:
        """Log probability of the censored readings, (), from all predicted readings, (d,)."""
        asked = self.asked
        each = asked.noise.loglikelihoods(readings, zeta, asked.observed)
        return jnp.sum(jnp.where(asked.noise.censored == 0.0, 0.0, each))


class CensoredProblem(InverseProblem):
    """A problem with some censored readings.  Build it with :func:`with_censored`.

    Attributes
    ----------
    rows : tuple of k int
        Indices of the readings that are not censored.
    """

    rows: tuple[int, ...] = static(kw_only=True)

    @property
    def searched(self) -> InverseProblem:
        """The problem without its censored readings."""
        return self._of_rows(UncensoredProblem)

    def lifted(self) -> Lifted:
        """Return the target of constrained samplers."""
        return LiftedPosterior(self._of_rows(LiftedUncensored))

    def of_all_readings(self, matrix: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.of_all_readings`."""
        whole = jnp.zeros((matrix.shape[0], self.num_observations))
        return whole.at[:, np.asarray(self.rows)].set(matrix)

    def of_searched(self, values: np.ndarray) -> np.ndarray:
        """As :meth:`InverseProblem.of_searched`: values of the readings that are not censored."""
        return values[..., list(self.rows)]

    def simulate(self, rng: np.random.Generator) -> tuple[InverseProblem, np.ndarray]:
        """As :meth:`InverseProblem.simulate`: a reading beyond its limit is replaced by the limit.

        A reading that is not beyond its limit is no longer censored.
        """
        made, theta = super().simulate(rng)
        signs, limits = np.asarray(self.noise.censored), np.asarray(self.observed)
        values = np.asarray(made.observed)
        is_beyond = signs * (values - limits) > 0.0
        noise = replace(self.noise, censored=jax.device_put(np.where(is_beyond, signs, 0.0)))
        observed = jax.device_put(np.where(is_beyond, limits, values))
        rows = tuple(np.flatnonzero(~is_beyond).tolist())
        return replace(self, observed=observed, noise=noise, rows=rows), theta

    def _of_rows(self, kind: type[UncensoredProblem]) -> UncensoredProblem:
        rows = np.asarray(self.rows, dtype=int)
        model = self.model.combined(self.of_all_readings(jnp.eye(rows.size)))
        noise, observed = self.noise.of_readings_at(rows), self.observed[rows]
        return kind(model, self.prior, noise, observed, asked=self, rows=self.rows)


def with_censored(problem: InverseProblem) -> InverseProblem:
    """Return the problem, as a :class:`CensoredProblem` if its noise marks censored readings."""
    if problem.noise.censored is None:
        return problem
    rows = tuple(np.flatnonzero(np.asarray(problem.noise.censored) == 0.0).tolist())
    parts = problem.model, problem.prior, problem.noise, problem.observed
    return CensoredProblem(*parts, rows=rows)
