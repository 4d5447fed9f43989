"""Scales of the noise: known, or unknown with a prior, for all readings or for groups.

An unknown scale is a smooth, increasing function of a variable zeta, which is standard normal or
has a density relative to the standard normal one (Au, Graham & Thiery 2023, sections 3 and 5.1).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, KeyPath, as_numbers
from invlift.programs.compilation import program
from invlift.programs.pytrees import static
from invlift.unknowns.distributions import Distribution, Positive, as_distribution, is_distribution
from invlift.unknowns.transformation import Transformation


def all_positive(where: KeyPath, values) -> np.ndarray:
    """Return a checked copy of positive numbers, () or (d,).

    JAX may share memory with an array that the caller changes later, hence the copy.
    """
    expected = "a positive number, or one for each reading"
    values = np.array(as_numbers(where, values, expected))
    if values.ndim > 1:
        raise InputError(where, expected, f"{values!r}", "correct it")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise InputError(
            (*where, *(("index", int(bad[0])) if values.ndim else ())),
            "a positive number",
            f"{values.flat[bad[0]]:g}",
            "give the standard deviation of the measurement error",
        )
    return values


def grouping(groups) -> dict:
    """Return the arguments of an unknown scale for groups; every index must occur."""
    if groups is None:
        return {}
    groups = np.asarray(groups)
    names: tuple[str, ...] = ()
    if groups.dtype == object and all(isinstance(each, str) for each in groups.flat):  # of pandas
        groups = groups.astype(str)
    if groups.dtype.kind == "U" and groups.ndim == 1:
        names = tuple(dict.fromkeys(groups.tolist()))
        groups = np.array([names.index(each) for each in groups.tolist()], dtype=int)
    is_whole = groups.ndim == 1 and groups.size > 0 and np.issubdtype(groups.dtype, np.integer)
    if not is_whole:
        raise InputError(
            ("noise", "groups"),
            "an integer or a name for each reading",
            f"{groups.dtype} of shape {groups.shape}",
            "give the index of each reading's scale, from 0, or the name of its group",
        )
    found = np.unique(groups)
    if not np.array_equal(found, np.arange(found.size)):
        wrong = found[found != np.arange(found.size)][0]
        raise InputError(
            ("noise", "groups"),
            f"every index from 0 to {found.size - 1}",
            f"{wrong}",
            "number the groups from 0 without gaps",
        )
    groups = jax.device_put(groups.astype(int))
    return {"groups": groups, "num_white": int(found.size), "names": names}


#: Below this argument log softplus is its argument to double precision.
_LOWEST = -36.0


class Scale(Transformation):
    """A positive number for all readings, or one for each, from zeta of shape (h,).

    Besides the scale of the noise this may be another positive parameter of it, such as degrees of
    freedom; ``sigma`` below stands for either.
    """

    #: True if :meth:`log_reference` includes the density of data, so that zeta is narrower than in
    #: its prior.
    has_data: ClassVar[bool] = False
    #: Group of each reading, (d,), if groups have their own scales; not annotated, as it is no
    #: field.
    groups = None

    @property
    def num_white(self) -> int:
        """Number h of unknowns zeta; 0 if the scale is known."""
        return 0

    def parameter(self, zeta: jax.Array) -> jax.Array:
        """Unknown sigma, (), (h,) or (d,), from zeta (h,): one value where readings share it."""
        return self.transform(zeta)

    def of_readings(self, parameter: np.ndarray) -> np.ndarray:
        """Sigma of the readings, (..., d) or (..., 1), from values of :meth:`parameter`."""
        return parameter[..., None]

    def near(self, sigma: jax.Array) -> Scale:
        """Return the same scale in a coordinate for values near sigma, () or (d,)."""
        return self

    def over_weights(self) -> tuple[jax.Array, Scale]:
        """Return known weights, () or (d,), and the scale of the readings divided by these."""
        return jnp.ones(()), self

    def of_readings_at(self, rows: np.ndarray) -> Scale:
        """Return the scale of the readings with these indices, (k,); they must cover all groups."""
        return self

    def check(self, num_readings: int) -> None:
        """Refuse a number of readings for which the scale is not defined.

        Raises
        ------
        InputError
            If it has one value or one group index for each of another number of readings.
        """


class KnownScale(Scale):
    """A known scale.

    Attributes
    ----------
    known : () or (d,)
        In units of the readings; one for all or one for each.
    """

    known: jax.Array

    def transform(self, zeta: jax.Array) -> jax.Array:
        """Sigma, () or (d,); zeta is empty."""
        return self.known

    def over_weights(self) -> tuple[jax.Array, KnownScale]:
        """As :meth:`Scale.over_weights`: the weights are the known scale."""
        return self.known, KnownScale(jnp.ones(()))

    def of_readings_at(self, rows: np.ndarray) -> KnownScale:
        """As :meth:`Scale.of_readings_at`."""
        return KnownScale(self.known[rows]) if self.known.ndim else self

    def check(self, num_readings: int) -> None:
        """As :meth:`Scale.check`."""
        if self.known.shape not in ((), (num_readings,)):
            raise InputError(
                ("noise", "sigma"),
                f"one number or {num_readings} numbers",
                f"{self.known.shape[0]}",
                "give one value per observation",
            )


class UnknownScale(Scale):
    """An unknown scale: one for all readings, or one for each group, all with the same prior.

    Without a threshold the coordinate zeta is that of the prior's distribution.  With a threshold c
    it is

        sigma = c softplus(location + slope zeta - log c),

    exponential below c and linear above, with location and slope the log of the prior's median and
    the standard deviation of log sigma.  Where sigma is large, an exponential coordinate is so
    curved that it forces small steps on a whole chain.  This one is not, and its log density
    relative to the standard normal one leaves the prior unchanged.

    Attributes
    ----------
    prior : Distribution
        Prior of one number of at least 0, sigma in its unit; the same for each group.
    groups : None or (d,) int
        Index of each reading's scale; None: one scale for all readings.
    num_white : int
        Number h of scales.
    names : tuple of h str
        Names of the groups; empty if they have none.
    threshold : None, () or (h,)
        c, in units of sigma.
    """

    prior: Distribution
    groups: jax.Array | None = field(default=None, kw_only=True)
    num_white: int = static(default=1, kw_only=True)
    names: tuple[str, ...] = static(default=(), kw_only=True)
    threshold: jax.Array | None = field(default=None, kw_only=True)

    @property
    def distributions(self) -> dict[str, Distribution]:
        """Prior of the scale, the same for each group."""
        return {"": self.prior}

    def transform(self, zeta: jax.Array) -> jax.Array:
        """Sigma, (), or (d,) with groups, from zeta (h,)."""
        values = self._values(zeta)
        return values[0] if self.groups is None else values[self.groups]

    def parameter(self, zeta: jax.Array) -> jax.Array:
        """Sigma of each group, (h,), where readings share it; otherwise as :meth:`transform`."""
        return self._values(zeta) if self.is_shared else self.transform(zeta)

    def of_readings(self, parameter: np.ndarray) -> np.ndarray:
        """As :meth:`Scale.of_readings`."""
        if self.groups is None:
            return parameter[..., None]
        return parameter[..., np.asarray(self.groups)] if self.is_shared else parameter

    @property
    def is_shared(self) -> bool:
        """True if there are groups, and some have several readings."""
        return self.groups is not None and self.num_white < self.groups.size

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Transformation.log_reference`, normalised."""
        if self.threshold is None:
            return jnp.sum(jax.vmap(self.prior.log_reference)(zeta[:, None]))
        argument = self._argument(zeta)
        is_low = argument < _LOWEST
        log_softplus = jnp.log(jax.nn.softplus(jnp.where(is_low, _LOWEST, argument)))
        log_threshold = jnp.log(self.threshold)
        log_sigma = log_threshold + jnp.where(is_low, argument, log_softplus)
        log_derivative = log_threshold + jnp.log(self.prior.log_sd) + jax.nn.log_sigmoid(argument)
        log_prior = self.prior.log_density_of_log(log_sigma) + log_derivative
        return jnp.sum(log_prior + 0.5 * zeta**2 + 0.5 * np.log(2.0 * np.pi))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Transformation.sample`."""
        zeta = np.concatenate([self.prior.sample(rng) for _ in range(self.num_white)])
        if self.threshold is None:
            return zeta
        return np.asarray(_beyond_threshold(self, zeta))

    def near(self, sigma: jax.Array) -> UnknownScale:
        """Return the scale with threshold sigma: () for all, or (d,), averaged over each group.

        A prior with bounds other than 0 and infinity keeps its coordinate.

        Raises
        ------
        InputError
            If a value is not finite and positive, or there are not d of them.
        """
        if not isinstance(sigma, jax.core.Tracer):
            sigma = jax.device_put(all_positive(("noise", "sigma"), sigma))
        if jnp.ndim(sigma):
            size = 1 if self.groups is None else self.groups.size
            if sigma.shape != (size,):
                raise InputError(
                    ("noise", "sigma"),
                    f"one number or {size}",
                    f"shape {sigma.shape}",
                    "correct it",
                )
            groups = jnp.zeros(1, int) if self.groups is None else self.groups
            sigma = _means(groups, sigma, self.num_white)
        return replace(self, threshold=sigma) if isinstance(self.prior, Positive) else self

    def of_readings_at(self, rows: np.ndarray) -> UnknownScale:
        """As :meth:`Scale.of_readings_at`."""
        return self if self.groups is None else replace(self, groups=self.groups[rows])

    def check(self, num_readings: int) -> None:
        """As :meth:`Scale.check`."""
        if self.groups is not None:
            _check_groups(self.groups, num_readings)

    def _values(self, zeta):
        if self.threshold is None:
            return jax.vmap(self.prior.transform)(zeta[:, None])
        return self.threshold * jax.nn.softplus(self._argument(zeta))

    def _argument(self, zeta):
        return self.prior.log_median + self.prior.log_sd * zeta - jnp.log(self.threshold)


class ScalesOfGroups(Scale):
    """Scales of groups of readings, each known or with its own prior.

    Attributes
    ----------
    parts : tuple of Scale
        One number each.
    groups : (d,) int
        Index of each reading's part.
    group_names : tuple of str
        Names of the parts; empty if they have none.
    """

    parts: tuple[Scale, ...]
    groups: jax.Array = field()
    group_names: tuple[str, ...] = static(default=())

    is_shared: ClassVar[bool] = True

    @property
    def num_white(self) -> int:
        """Number h of unknown scales."""
        return len(self._unknown)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups whose scales are unknown."""
        return tuple(self.group_names[k] for k in self._unknown) if self.group_names else ()

    def transform(self, zeta: jax.Array) -> jax.Array:
        """Sigma, (d,), from zeta (h,)."""
        return jnp.stack([part.transform(score) for part, score in self._split(zeta)])[self.groups]

    def parameter(self, zeta: jax.Array) -> jax.Array:
        """Unknown scales, (h,), from zeta (h,)."""
        return jnp.stack([part.transform(score) for part, score in self._split(zeta) if score.size])

    def of_readings(self, parameter: np.ndarray) -> np.ndarray:
        """As :meth:`Scale.of_readings`."""
        every = [np.broadcast_to(part.transform(jnp.zeros(part.num_white)), parameter.shape[:-1])
                 for part in self.parts]  # fmt: skip
        for column, k in enumerate(self._unknown):
            every[k] = parameter[..., column]
        return np.stack(every, axis=-1)[..., np.asarray(self.groups)]

    def log_reference(self, zeta: jax.Array) -> jax.Array:
        """As :meth:`Transformation.log_reference`, normalised."""
        return sum(part.log_reference(score) for part, score in self._split(zeta))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Transformation.sample`."""
        return np.concatenate([part.sample(rng) for part in self.parts])

    def near(self, sigma: jax.Array) -> ScalesOfGroups:
        """Apply :meth:`Scale.near` to each part, for the mean of sigma, () or (d,), there."""
        sigma = jnp.broadcast_to(sigma, self.groups.shape)
        means = _means(self.groups, sigma, len(self.parts))
        parts = tuple(part.near(mean) for part, mean in zip(self.parts, means, strict=True))
        return replace(self, parts=parts)

    def of_readings_at(self, rows: np.ndarray) -> ScalesOfGroups:
        """As :meth:`Scale.of_readings_at`."""
        return replace(self, groups=self.groups[rows])

    def check(self, num_readings: int) -> None:
        """As :meth:`Scale.check`."""
        _check_groups(self.groups, num_readings)

    @property
    def _unknown(self):
        return [k for k, part in enumerate(self.parts) if part.num_white]

    def _split(self, zeta):
        """Pair each part with its zeta, (1,) or (0,)."""
        ends = np.cumsum([part.num_white for part in self.parts])[:-1]
        return zip(self.parts, jnp.split(zeta, ends), strict=True)


@program
def _beyond_threshold(scale: UnknownScale, zeta):
    """Convert the coordinate of the prior to that with the scale's threshold, (h,)."""
    prior, threshold = scale.prior, scale.threshold
    above = jax.vmap(prior.transform)(zeta[:, None]) / threshold
    argument = above + jnp.log(-jnp.expm1(-above))  # inverse of softplus
    return (argument + jnp.log(threshold) - prior.log_median) / prior.log_sd


def _means(groups: jax.Array, values: jax.Array, num: int) -> jax.Array:
    """Return means of values (d,) over each of ``num`` groups."""
    return jnp.bincount(groups, values, length=num) / jnp.bincount(groups, length=num)


def _check_groups(groups, num_readings: int) -> None:
    if groups.shape != (num_readings,):
        raise InputError(
            ("noise", "groups"),
            f"{num_readings} indices",
            f"{groups.size}",
            "give the index of each reading's scale",
        )


# Public functions ---------------------------------------------------------------------------------


def known_scale(sigma: float | np.ndarray) -> KnownScale:
    """Known scale, one number or (d,), in units of the readings.

    Raises
    ------
    InputError
        If a value is not finite and positive.
    """
    return KnownScale(jax.device_put(all_positive(("noise", "sigma"), sigma)))


def unknown_scale(prior, groups=None) -> UnknownScale | ScalesOfGroups:
    """Unknown scale with a prior.

    Parameters
    ----------
    prior : Distribution, or sequence of Distribution or float
        Distribution of invlift or NumPyro of one number of at least 0, in units of the readings:
        ``lognormal(median=0.1, factor=2)``, ``half_normal(0.5)``.  Or one for each group, where a
        number is a known scale: ``[lognormal(median=0.1, factor=2), 5.0]``.
    groups : (d,) of int or str, optional
        Index, from 0, of each reading's scale; ``numpy.arange(d)`` gives each its own scale.  Or
        the name of its group; scales are in the order in which groups are first named.

    Returns
    -------
    UnknownScale or ScalesOfGroups
        For the ``scale`` of a noise.

    Raises
    ------
    InputError
        If a prior is of several numbers or of negative ones, there are not as many as groups, or an
        index is missing among the groups.
    """
    by_group = grouping(groups)
    if isinstance(prior, list | tuple):
        if len(prior) != by_group.get("num_white", 1):
            expected = f"{by_group.get('num_white', 1)}, one for each group"
            raise InputError(("noise", "scale"), expected, f"{len(prior)}", "give one for each")
        parts = tuple(map(as_scale, prior))
        if not by_group:
            return parts[0]
        return ScalesOfGroups(parts, by_group["groups"], by_group["names"])
    prior = as_distribution(prior)
    if prior.shape or prior.support[0] < 0.0:
        shape, (low, _) = prior.shape, prior.support
        raise InputError(
            ("noise", "scale"),
            "a distribution of one number that is not negative",
            f"one of shape {shape}" if shape else f"one of numbers from {low:g}",
            "give another, such as lognormal(median=0.1, factor=2); a list, for several groups",
        )
    return UnknownScale(prior, **by_group)


def as_scale(scale) -> Scale:
    """Return a scale as given, an unknown one for a distribution, or a known one for numbers.

    Raises
    ------
    InputError
        As :func:`known_scale` and :func:`unknown_scale`.
    """
    if isinstance(scale, Scale):
        return scale
    return unknown_scale(scale) if is_distribution(scale) else known_scale(scale)
