"""Fit of the readings: predictions, residuals, new readings, likelihoods, leave-one-out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.posterior.draws import PosteriorDraws
from invlift.posterior.names import NOISE_SCORE, OBSERVED, PREDICTED, path_name
from invlift.posterior.statistics.leave_one_out import LeaveOneOut, leave_one_out
from invlift.posterior.statistics.parts import every_of
from invlift.posterior.statistics.quantity import Quantity
from invlift.posterior.statistics.sensor_fit import (
    SensorStatistics,
    misfit_p_value,
    sensor_statistics,
)
from invlift.posterior.statistics.series import Series, in_time, readings_along, series_of

NOISE_SEED = 0  # seed of the noise of new readings


@dataclass(frozen=True, eq=False)
class Fit:
    """Comparison of the readings of a run with the predictions of its draws: `posterior.fit`."""

    posterior: PosteriorDraws

    @property
    def is_known(self) -> bool:
        """Whether readings and predictions exist."""
        return self.posterior.sensors is not None and PREDICTED in self.posterior.described

    @property
    def unit(self) -> str:
        """Unit of the readings, "" if it is unknown or they have several."""
        return self.predicted.unit

    @property
    def predicted(self) -> Quantity:
        """Description of the predictions; without a unit if none are stored."""
        return self.posterior.described.get(PREDICTED, Quantity(PREDICTED))

    @cached_property
    def scores(self) -> list[np.ndarray] | None:
        """Draws of the noise variables, (num_draws, d) per chain, that increase with the reading.

        Relative noise multiplies: of a negative reading its variable is the negative of these.
        None if the noise variables are not stored.
        """
        scores = self.posterior.all_draws.get(NOISE_SCORE) if self.is_known else None
        if scores is None:
            return None
        values = self.posterior.readings.values
        is_falling = np.asarray(values) < 0.0
        for predicted, eta in zip(self.predictions, scores, strict=True):
            if not is_falling.any():
                return scores
            with np.errstate(invalid="ignore"):
                is_falling &= ((values - predicted) * eta <= 0.0).all(axis=0)
                # Noise whose median is not 0 also has such draws, but falls with the prediction.
                is_falling &= np.sum((predicted - predicted.mean(axis=0)) * eta, axis=0) >= 0.0
        return [np.where(is_falling, -eta, eta) for eta in scores]

    @property
    def predictions(self) -> list[np.ndarray]:
        """Draws of the predictions, (num_draws, d) for each chain."""
        return self.posterior.draws(PREDICTED)

    @property
    def _coordinates(self) -> Mapping[str, Sequence]:
        readings = self.posterior.readings
        return in_time(readings, self.predicted.unit) or readings.coordinates

    @property
    def every(self) -> int:
        """Thinning of the draws of new readings and of likelihoods."""
        noise = self.posterior.noise
        return 1 if noise is None else noise.every(self.posterior.chains)

    @property
    def _draws(self) -> list[dict[str, np.ndarray]]:
        """Draws with this thinning, by name for each chain, of all quantities that have it."""
        return [
            {
                name: values[:: self.every // chain.every.get(name, 1)]
                for name, values in chain.draws.items()
                if self.every % chain.every.get(name, 1) == 0
            }
            for chain in self.posterior.chains
        ]

    def sensors(self) -> SensorStatistics:
        """Compare readings and predictions; an `InputError` if either is missing."""
        if not self.is_known:
            expected, found = "sensors and draws of predicted", "neither or only one of them"
            remedy = "pass sensors, and store the predictions while sampling"
            raise InputError("posterior", expected, found, remedy)
        return self._statistics

    @cached_property
    def _statistics(self) -> SensorStatistics:
        draws, readings = self.predictions, self.posterior.readings
        return sensor_statistics(draws, readings.values, self.scores, readings.limits)

    def table(self) -> pd.DataFrame:
        """Return a table with a row per reading: `sensor_fit.csv` (docs/commands/run.md).

        The rows have the names of the readings. The columns are coordinates, the reading, and
        statistics of its prediction. Raises an `InputError` if there are no readings.
        """
        if self.posterior.sensors is None:
            raise InputError("posterior", "readings", "none", "pass sensors")
        sensors = self.posterior.readings
        positions = () if sensors.points is None else np.transpose(sensors.points)
        labels = np.arange(len(sensors.values)) if sensors.labels is None else sensors.labels
        known = dict(sensors.coordinates) | dict(zip("xyz", positions, strict=False))
        limits = {} if sensors.limits is None else {"limit": sensors.limits}
        columns = known | limits | self.by_sensor()
        return pd.DataFrame(columns, index=pd.Index(labels, name="sensor"))

    def by_sensor(self) -> dict[str, np.ndarray]:
        """Return readings and statistics of their predictions, (d,) each, by name."""
        data = {"observed": np.asarray(self.posterior.sensors.values)}
        if self.is_known:
            fit = vars(self.sensors())
            hidden = "noise_sd", "limit"
            data |= {name: values for name, values in fit.items() if name not in hidden}
        if self.has_leave_one_out and self.is_loo_of_sensors:
            loo = self.leave_one_out()
            data |= {"loo_elpd": loo.elpd, "loo_pareto_k": loo.pareto_k, "loo_pit": loo.pit}
        return {name: values for name, values in data.items() if values is not None}

    @cached_property
    def misfit_p_value(self) -> float | None:
        """See `sensor_fit.misfit_p_value`; None if the noise variables are not stored."""
        limits = self.posterior.readings.limits
        return None if self.scores is None else misfit_p_value(self.scores, limits)

    @property
    def arrays(self) -> dict[str, tuple[Mapping, np.ndarray]]:
        """Axes and values of the readings, by name: `observed`, or the named arrays of a model."""
        if self.posterior.sensors is None:
            return {}
        if arrays := self.posterior.readings.arrays:
            return dict(arrays)
        labels = (each.axes.get("sensor") for each in self.posterior.described.values())
        axes = {"sensor": next(filter(None, labels), None)}
        return {OBSERVED: (axes, np.asarray(self.posterior.sensors.values, dtype=float))}

    def new_readings(self) -> dict[str, list[np.ndarray]]:
        """Draw new readings of the `arrays` and along paths, by name; empty if noise is unknown.

        They are for every `every`-th draw, as are the `log_likelihoods`.
        """
        if self.posterior.noise is None or not self.is_known:
            return {}
        along = readings_along(self._coordinates).items()
        paths = {path_name(name): rows for name, (_, rows) in along}
        every = {
            path: every_of(self.posterior.chains, path)
            for path in paths
            if path in self.posterior.described
        }
        paths = {path: rows for path, rows in paths.items() if every.get(path) == 1}
        rng = np.random.default_rng(NOISE_SEED)
        return self.posterior.noise.new_readings(rng, self._draws, paths)

    @cached_property
    def series(self) -> list[Series]:
        """Quantities along axes of numbers: see `series.series_of`."""
        posterior = self.posterior
        observed = posterior.sensors.values if self.is_known else None
        new = self.new_readings() if readings_along(self._coordinates) else {}
        return series_of(posterior.all_draws, posterior.described, self._coordinates, observed, new)

    @cached_property
    def log_likelihoods(self) -> dict[str, list[np.ndarray]]:
        """Log densities of the `arrays` given each draw, (num_draws, ...) for each chain.

        They have the first axes of the readings, as all entries of a vector may have one joint
        density. Empty if the noise is unknown.
        """
        if self.posterior.noise is None or not self.is_known:
            return {}
        return self.posterior.noise.log_likelihoods(self._draws)

    @property
    def log_likelihood(self) -> list[np.ndarray] | None:
        """The `log_likelihoods` as one array, (num_draws, k) per chain; None if unknown."""
        parts = list(zip(*self.log_likelihoods.values(), strict=True))
        flat = [[part.reshape(len(part), -1) for part in each] for each in parts]
        return [np.concatenate(each, axis=1) for each in flat] or None

    @property
    def has_leave_one_out(self) -> bool:
        """Whether `leave_one_out` has a result."""
        return self._leave_one_out is not None

    def leave_one_out(self) -> LeaveOneOut:
        """Compute leave-one-out predictions by Pareto smoothed importance sampling.

        Raises an `InputError` if there are no sensors, no draws of "predicted", fewer than 25 draws
        in total, only equal draws, or no known density of the noise.
        """
        if self.log_likelihood is None:
            expected, found = "readings, draws of predicted, and noise of known density", "not all"
            remedy = "store the predictions while sampling, and pass the noise"
            raise InputError("posterior", expected, found, remedy)
        if self._leave_one_out is None:
            found = f"{sum(map(len, self.log_likelihood))}"
            expected = "25 draws in all, or more, that differ from each other"
            raise InputError("leave-one-out", expected, found, "run for longer")
        return self._leave_one_out

    @cached_property
    def _leave_one_out(self) -> LeaveOneOut | None:
        if self.log_likelihood is None:
            return None
        scores = self.scores if self.is_loo_of_sensors else None
        scores = scores and [each[:: self.every] for each in scores]
        return leave_one_out(self.log_likelihood, scores)

    @property
    def is_loo_of_sensors(self) -> bool:
        """Whether there is one leave-one-out prediction for each reading of the sensors.

        This is false if some readings have no noise variables, or several have a joint density.
        """
        sizes = [np.size(values) for _, values in self.arrays.values()]
        num_logs = [math.prod(each[0].shape[1:]) for each in self.log_likelihoods.values()]
        return sizes == num_logs and sum(sizes) == len(self.posterior.sensors.values)
