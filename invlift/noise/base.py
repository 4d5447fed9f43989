"""Noise as an elementwise transformation of standard normal variables.

A noise is a scale, a shape and a link.  With d readings y, noise-free ones F, the scale sigma and
an increasing function T, the shape, it is y = F + sigma T(eta), or y = F exp(sigma T(eta)) if it is
relative.  If T(eta) has the required distribution for standard normal eta, nothing else is needed.
If it has it only approximately, or T is the identity, the density of eta relative to the standard
normal one makes it exact (Au, Graham & Thiery 2023, section 3).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from invlift.errors import InputError
from invlift.noise.scales import Scale
from invlift.programs.compilation import program
from invlift.programs.pytrees import Module, static

#: Nodes of the quadrature over noise variables; none is 0, where some densities have a corner.
NODES = np.linspace(-8.0, 8.0, 80)
#: Signs of censored readings, by their notation in tables.
BELOW, ABOVE = -1.0, 1.0
SIGNS = {"": 0.0, "<": BELOW, ">": ABOVE}
#: In place of a sign: the reading is predicted, but left out of the density.
LEFT_OUT = 2.0


class Noise(Module):
    """Base class of noise; a family overrides the four functions of its shape.

    The unknowns zeta, (h,), are those of the scale, followed by those of the shape.  Everything is
    a JAX function with derivatives of any order, in forward and in reverse mode, unless a family
    says otherwise.

    Attributes
    ----------
    scale : Scale
        Sigma: in units of the readings, or dimensionless if the noise is relative.
    relative : bool
        True if the noise multiplies the readings, which must then not be 0.
    censored : None or (d,)
        -1 for a reading that is at most the observed value, 1 for one that is at least that value,
        :data:`LEFT_OUT` for one that is left out of the density, 0 for any other.  See
        :meth:`with_limits` and :meth:`without_reading`.
    coordinate : None or LaplaceApproximation
        Its ``colour`` maps the variables in which a problem has the noise to zeta; None: zeta.
    shape_parameters : tuple of str
        Fields of the class with further positive parameters, each a :class:`Scale` of one value.
    is_exact : bool
        True if there is no noise; the log likelihood is then zero.
    """

    scale: Scale
    relative: bool = static(default=False, kw_only=True)
    censored: jax.Array | None = field(default=None, kw_only=True)
    # Of any type with ``colour``: a reference distribution belongs to a higher layer.
    coordinate: Any = field(default=None, kw_only=True)

    shape_parameters: ClassVar[tuple[str, ...]] = ()
    is_exact: ClassVar[bool] = False

    # The shape: elementwise functions that a family overrides -------------------------------------

    def transform(self, eta: jax.Array, *shape: jax.Array) -> jax.Array:
        """T(eta), elementwise: smooth and increasing.

        Parameters
        ----------
        eta : (d,)
            Noise variables, without unit.
        *shape : ()
            Values of the shape parameters, in the order of ``shape_parameters``.

        Returns
        -------
        (d,)
            Noise of scale one, without unit.
        """
        return eta

    def inverse_transform(self, value: jax.Array, *shape: jax.Array) -> jax.Array:
        """The inverse of :meth:`transform`, elementwise.

        Parameters
        ----------
        value : (d,)
            Noise of scale one.
        *shape : ()
            Values of the shape parameters.

        Returns
        -------
        (d,)
            Eta.
        """
        return value

    def log_ratio(self, eta: jax.Array, *shape: jax.Array) -> jax.Array:
        """Log density of each eta relative to the standard normal one.

        Parameters
        ----------
        eta : (d,)
        *shape : ()
            Values of the shape parameters.  Terms that depend on these alone must not be left out.

        Returns
        -------
        (d,)
        """
        return jnp.zeros_like(eta)

    def draw(self, rng: np.random.Generator, size: int, *shape: np.ndarray) -> np.ndarray:
        """Exact draws of T(eta); a subclass with :meth:`log_ratio` overrides it.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int
            Number d of draws.
        *shape : ()
            Values of the shape parameters.

        Returns
        -------
        (d,)
        """
        return np.asarray(self.transform(jax.device_put(rng.standard_normal(size)), *shape))

    def scores(self, eta: jax.Array, *shape: jax.Array) -> jax.Array:
        """Return standard normal variables with the probabilities of eta.

        A subclass whose eta is not standard normal overrides it; p-values and PIT come from it.

        Parameters
        ----------
        eta : (d,)
            Noise variables.
        *shape : ()
            Values of the shape parameters.

        Returns
        -------
        (d,)
            Eta itself, which is standard normal if :meth:`log_ratio` is 0.
        """
        return eta

    # Methods that follow from the shape -----------------------------------------------------------

    @property
    def is_transformed(self) -> bool:
        """True if readings are defined by :meth:`transform`.

        False if a subclass overrides :meth:`loglikelihood` instead.  Such noise has only a joint
        density of all readings, and only samplers on the ordinary posterior can use it.
        """
        return self.is_exact or type(self).loglikelihood is Noise.loglikelihood

    @property
    def num_parameters(self) -> int:
        """Number h of unknowns zeta."""
        return sum(part.num_white for part in self._parts)

    def observe(self, predicted: jax.Array, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Return readings with noise, from noise-free ones.

        Parameters
        ----------
        predicted : (d,)
        zeta : (h,)
        eta : (d,)

        Returns
        -------
        (d,)
        """
        exponent = self._noise(zeta, eta)
        return predicted * jnp.exp(exponent) if self.relative else predicted + exponent

    def invert(self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array) -> jax.Array:
        """Return the noise variables that turn noise-free readings into the observed ones.

        Parameters
        ----------
        predicted : (d,)
            Noise-free readings F, in the unit of the readings.
        zeta : (h,)
        observed : (d,)
            Readings y.

        Returns
        -------
        (d,)
            Eta; NaN where the noise is relative and both differ in sign.
        """
        sigma, shape = self._values(zeta)
        return self._score(predicted, observed, sigma, shape)

    def normal_scores_of(self, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Return :meth:`scores` for the shape at zeta.

        Parameters
        ----------
        zeta : (h,)
        eta : (d,)
            Noise variables.

        Returns
        -------
        (d,)
        """
        return self.scores(eta, *self._values(zeta)[1])

    def predicted(self, observed: jax.Array, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Noise-free readings that give the observed ones (Au, Graham & Thiery 2023, eq. 3).

        Parameters
        ----------
        observed : (d,)
            Readings y.
        zeta : (h,)
        eta : (d,)

        Returns
        -------
        (d,)
            y - sigma T(eta), or y exp(-sigma T(eta)) if the noise is relative.
        """
        exponent = self._noise(zeta, eta)
        return observed * jnp.exp(-exponent) if self.relative else observed - exponent

    def log_slope(self, observed: jax.Array, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Sum of log abs(d predicted / d observed) at fixed zeta and eta.

        Parameters
        ----------
        observed : (d,)
        zeta : (h,)
        eta : (d,)

        Returns
        -------
        ()
            0 if the noise is additive.
        """
        return -jnp.sum(self._noise(zeta, eta)) if self.relative else jnp.zeros(())

    def log_reference(self, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Log density of zeta and eta relative to the standard normal one.

        Parameters
        ----------
        zeta : (h,)
        eta : (d,)

        Returns
        -------
        ()
        """
        return self.log_reference_of_parameters(zeta) + self.log_reference_of_noise(zeta, eta)

    def log_reference_of_parameters(self, zeta: jax.Array) -> jax.Array:
        """Log density of zeta (h,) alone, relative to the standard normal one, ()."""
        parts = zip(self._parts, self._split(zeta), strict=True)
        return sum((part.log_reference(score) for part, score in parts), jnp.zeros(()))

    def log_reference_of_noise(self, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Log density of eta given zeta, relative to the standard normal one.

        Parameters
        ----------
        zeta : (h,)
        eta : (d,)

        Returns
        -------
        ()
        """
        return jnp.sum(self.log_ratio(eta, *self._values(zeta)[1]))

    def sigma(self, zeta: jax.Array) -> jax.Array:
        """The scale, () or (d,), from zeta (h,); dimensionless if the noise is relative."""
        return self._values(zeta)[0]

    def parameters(self, zeta: jax.Array) -> dict[str, jax.Array]:
        """Return the unknown parameters of the noise by name, at zeta (h,).

        ``sigma`` is (), (h,) with one value for each group of readings that share it, or (d,) with
        one for each reading.  Shape parameters are ().
        """
        names = ("sigma", *self.shape_parameters)
        parts = zip(names, self._parts, self._split(zeta), strict=True)
        return {name: part.parameter(score) for name, part, score in parts if part.num_white}

    def loglikelihood(
        self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array
    ) -> jax.Array:
        """Log density of the readings.

        Parameters
        ----------
        predicted : (d,)
            Noise-free readings F.
        zeta : (h,)
        observed : (d,)

        Returns
        -------
        ()
            log p(y | F, zeta), with all constants; -inf if relative noise would have to change a
            sign.
        """
        return jnp.sum(self.loglikelihoods(predicted, zeta, observed))

    def loglikelihoods(
        self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array
    ) -> jax.Array:
        """Log density of each reading: see :meth:`loglikelihood`.

        Parameters
        ----------
        predicted : (d,)
            Noise-free readings F.
        zeta : (h,)
        observed : (d,)

        Returns
        -------
        (d,)
        """
        sigma, shape = self._values(zeta)
        return self.log_densities(predicted, observed, sigma, *shape)

    def log_densities(
        self, predicted: jax.Array, observed: jax.Array, sigma: jax.Array, *shape: jax.Array
    ) -> jax.Array:
        """Log density of each reading.

        Parameters
        ----------
        predicted : (d,)
            Noise-free readings F.
        observed : (d,)
        sigma : () or (d,)
            Value of the scale.
        shape : ()
            Values of the shape parameters.

        Returns
        -------
        (d,)
            log p(y_i | F_i, sigma_i, shape), with all constants, in the logarithm of one over the
            unit of the readings; -inf where relative noise would have to change a sign.  For a
            censored reading it is log P(y <= y_i) or log P(y >= y_i) (Tobin 1958, eq. 4); for one
            left out it is 0.
        """
        is_impossible = jnp.zeros_like(observed, bool)
        if self.relative:
            is_impossible = jnp.sign(predicted) * jnp.sign(observed) <= 0.0
            predicted = jnp.where(is_impossible, observed, predicted)
        eta, slope = jax.jvp(
            lambda observed: self._score(predicted, observed, sigma, shape),
            (observed,),
            (jnp.ones_like(observed),),
        )
        log_normal = -0.5 * eta**2 - 0.5 * np.log(2.0 * np.pi)
        each = log_normal + jnp.log(jnp.abs(slope)) + self.log_ratio(eta, *shape)
        each = jnp.where(is_impossible, -jnp.inf, each)
        if self.censored is None:
            return each
        # Relative noise multiplies: a negative reading falls as its eta grows.
        sides = self.censored * (jnp.sign(observed) if self.relative else 1.0)
        # A reading has the sign of its prediction: a limit across 0 is certain or impossible.
        beyond = jnp.where(sides < 0.0, 0.0, -jnp.inf)
        limited = jnp.where(is_impossible, beyond, log_ndtr(-sides * eta))
        each = jnp.where(self.censored == 0.0, each, limited)
        return jnp.where(self.censored == LEFT_OUT, 0.0, each)

    def score_and_information(
        self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Derivative of each log density by its noise-free reading, and the Fisher information.

        Parameters
        ----------
        predicted : (d,)
            Noise-free readings F.
        zeta : (h,)
        observed : (d,)

        Returns
        -------
        score : (d,)
            In one over the unit of the readings.
        information : (d,)
            Mean square of the score over readings with this noise, by quadrature.
        """
        sigma, shape = self._values(zeta)

        def score(observed):
            def log_density(predicted):
                return jnp.sum(self.log_densities(predicted, observed, sigma, *shape))

            return jax.grad(log_density)(predicted)

        nodes = jnp.asarray(NODES)
        etas = jnp.broadcast_to(nodes[:, None], (nodes.size, predicted.size))
        made = jax.vmap(lambda eta: self.observe(predicted, zeta, eta))(etas)
        weights = jax.nn.softmax(self.log_ratio(nodes, *shape) - 0.5 * nodes**2)
        # A reading that overflows has a weight of 1e-15; its score is left out.
        squares = jnp.nan_to_num(jax.vmap(score)(made) ** 2, posinf=0.0)
        return score(observed), weights @ squares

    def with_limits(self, limits: np.ndarray) -> Self:
        """Return the same noise with some readings censored.

        Parameters
        ----------
        limits : (d,) of str
            "<" for a reading below the observed value, ">" for one above, "" for any other.

        Returns
        -------
        Noise

        Raises
        ------
        InputError
            If the distribution function of the noise is not known, or all readings are censored.
        """
        signs = np.array([SIGNS[each] for each in limits])
        if not signs.any():
            return self
        if type(self).log_ratio is not Noise.log_ratio or not self.is_transformed:
            remedy = 'choose one of these, or leave the readings with "<" or ">" out'
            where, found = ("noise", "kind"), type(self).__name__
            raise InputError(
                where, '"gaussian" or "laplace", as readings are censored', found, remedy
            )
        if signs.all():
            expected, found = "one reading at least that is not censored", "limits alone"
            raise InputError("observed", expected, found, "add readings")
        return replace(self, censored=jax.device_put(signs))

    def without_reading(self, row: int, num: int) -> Self:
        """Return the same noise with one reading left out of the density; it is still predicted.

        Parameters
        ----------
        row : int
            Index of the reading, from 0.
        num : int
            Number d of readings.

        Returns
        -------
        Noise

        Raises
        ------
        InputError
            If no other reading has a value.
        """
        signs = np.zeros(num) if self.censored is None else np.array(self.censored)
        signs[row] = LEFT_OUT
        if signs.all():
            remedy = "add readings"
            raise InputError("leave-one-out", "another reading with a value", "none", remedy)
        return replace(self, censored=jax.device_put(signs))

    @property
    def limits(self) -> np.ndarray:
        """As given to :meth:`with_limits`, (d,) of str."""
        names = {sign: name for name, sign in SIGNS.items()}
        return np.array([names[sign] for sign in np.asarray(self.censored).tolist()])

    def of_readings_at(self, rows: np.ndarray) -> Self:
        """Return the noise of the readings with these indices, (k,), none of them censored."""
        return replace(self, scale=self.scale.of_readings_at(rows), censored=None)

    def sample_parameters(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draw of zeta, (h,), from the prior."""
        return np.concatenate([part.sample(rng) for part in self._parts])

    def sample(
        self, rng: np.random.Generator, predicted: np.ndarray, zeta: np.ndarray
    ) -> np.ndarray:
        """Exact draw of the readings.

        Parameters
        ----------
        rng : numpy.random.Generator
        predicted : (d,)
            Noise-free readings F.
        zeta : (h,)

        Returns
        -------
        (d,)
            In the unit of the readings.
        """
        sigma, shape = jax.tree.map(np.asarray, self._values(jax.device_put(np.asarray(zeta))))
        exponent = sigma * self.draw(rng, np.size(predicted), *shape)
        return predicted * np.exp(exponent) if self.relative else predicted + exponent

    def near(self, sigma: jax.Array) -> Self:
        """Return the same noise with the coordinate of its scale chosen for values near sigma.

        Parameters
        ----------
        sigma : () or (d,)
            Positive, in units of the scale; if (d,), each group of readings takes the mean over its
            readings.

        Returns
        -------
        Noise
            With the same prior; itself if the scale is known.
        """
        return replace(self, scale=self.scale.near(sigma)) if self.scale.num_white else self

    def check(self, observed: np.ndarray) -> None:
        """Refuse readings that the noise cannot have produced.

        Parameters
        ----------
        observed : (d,)

        Raises
        ------
        InputError
            If sigma, groups or limits are for another number of readings, the noise is relative and
            a reading is 0, named by its index from 0, or ``inverse_transform`` is not the inverse
            of ``transform``.
        """
        observed = np.asarray(observed)
        self.scale.check(observed.size)
        if self.censored is not None and self.censored.shape != observed.shape:
            expected, found = f"{observed.size}, one for each reading", f"{self.censored.size}"
            raise InputError(("noise", "limits"), expected, found, 'give "" for a plain reading')
        given, kind = type(self), Noise
        if (given.transform, given.inverse_transform) != (kind.transform, kind.inverse_transform):
            self._check_inverse()
        zeros = np.flatnonzero(observed == 0.0)
        if self.relative and zeros.size:
            raise InputError(
                ("observed", "index", int(zeros[0])),
                "a reading other than 0, as the noise is relative",
                "0",
                "remove the reading, or take additive noise",
            )

    def _check_inverse(self) -> None:
        etas = np.linspace(-2.0, 2.0, 5)
        values, found = map(np.asarray, _there_and_back(self, etas))
        bad = np.flatnonzero(~np.isclose(found, etas, rtol=0.0, atol=1e-6))
        if bad.size:
            where = ("noise", type(self).__name__, f"inverse_transform of {values[bad[0]]:g}")
            expected, found = (
                f"{etas[bad[0]]:g}, as transform of this gives that value",
                f"{found[bad[0]]:g}",
            )
            raise InputError(where, expected, found, "write the inverse of transform")

    @property
    def _parts(self) -> tuple[Scale, ...]:
        return (self.scale, *(getattr(self, name) for name in self.shape_parameters))

    def _split(self, zeta):
        """Split zeta into the parts of the scale and of each shape parameter."""
        ends = np.cumsum([part.num_white for part in self._parts])
        return [
            zeta[end - part.num_white : end] for part, end in zip(self._parts, ends, strict=True)
        ]

    def _unknowns(self, zeta):
        """The unknowns themselves, (h,), from variables in another coordinate, (h,)."""
        return zeta if self.coordinate is None else self.coordinate.colour(zeta)

    def _values(self, zeta):
        """Sigma, () or (d,), and the shape parameters, a tuple of ()."""
        parts = zip(self._parts, self._split(self._unknowns(zeta)), strict=True)
        sigma, *shape = (part.transform(score) for part, score in parts)
        return sigma, tuple(shape)

    def _score(self, predicted, observed, sigma, shape):
        """Return eta, (d,), that turns predicted into observed: see :meth:`invert`."""
        if self.relative:
            ratio = observed / predicted
            difference = jnp.log(jnp.where(ratio > 0.0, ratio, jnp.nan))
        else:
            difference = observed - predicted
        return self.inverse_transform(difference / sigma, *shape)

    def _noise(self, zeta, eta):
        sigma, shape = self._values(zeta)
        return sigma * self.transform(eta, *shape)


@program
def _there_and_back(noise: Noise, etas):
    """Return transformed values at the medians of the parameters, and their inverse."""
    _, shape = noise._values(jnp.zeros(noise.num_parameters))
    values = noise.transform(etas, *shape)
    return values, noise.inverse_transform(values, *shape)
