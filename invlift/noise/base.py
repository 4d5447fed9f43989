"""Noise as an elementwise transformation of standard normal variables.

A noise is a scale, a shape and a link.  With d readings y, noise-free ones F, the scale sigma and
an increasing function T, the shape, it is y = F + sigma T(eta), or y = F exp(sigma T(eta)) if it is
relative.  Where T(eta) has the wanted distribution for standard normal eta nothing is left to do;
where it has it nearly, or T is the identity, the density of eta relative to the standard normal one
makes it exact (Au, Graham & Thiery 2023, section 3).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from invlift.errors import InputError
from invlift.noise.scales import Scale
from invlift.programs.compilation import program
from invlift.programs.pytrees import Module, static

#: Noise variables of the quadrature; none is 0, where some densities have a corner.
NODES = np.linspace(-8.0, 8.0, 80)
#: Signs of readings of which only a limit is known, by how tables write them.
BELOW, ABOVE = -1.0, 1.0
SIGNS = {"": 0.0, "<": BELOW, ">": ABOVE}
#: In place of a sign: the reading is predicted, but left out of the density.
LEFT_OUT = 2.0


class Noise(Module):
    """What all noise has in common; a family overrides the four functions of its shape.

    The unknowns zeta, (h,), are those of the scale, followed by those of the shape.  Everything is
    a JAX function with derivatives of any order, in forward and in reverse mode, unless a family
    says otherwise.

    Attributes
    ----------
    scale : Scale
        Sigma: in units of the readings, or dimensionless if the noise is relative.
    relative : bool
        Whether it multiplies the readings, which must then not be 0.
    censored : None or (d,)
        -1 for a reading of which it is only known that it is at most the observed value, 1 for one
        that is at least that, :data:`LEFT_OUT` for one that is not there, 0 for any other.  See
        :meth:`with_limits` and :meth:`without_reading`.
    shape_parameters : tuple of str
        Fields of the class with further positive parameters, each a :class:`Scale` of one value.
    is_exact : bool
        Whether there is none: readings are then no more likely with some unknowns than with others.
    """

    scale: Scale
    relative: bool = static(default=False, kw_only=True)
    censored: jax.Array | None = field(default=None, kw_only=True)

    shape_parameters: ClassVar[tuple[str, ...]] = ()
    is_exact: ClassVar[bool] = False

    # The shape: what a family overrides, elementwise ----------------------------------------------

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

    # What follows ---------------------------------------------------------------------------------

    @property
    def is_transformed(self) -> bool:
        """Whether readings are made by :meth:`transform`.

        Not where a subclass writes :meth:`loglikelihood` in its place: such noise has a density of
        all readings, which samplers on the ordinary posterior draw from, and nothing else.
        """
        return self.is_exact or type(self).loglikelihood is Noise.loglikelihood

    @property
    def num_parameters(self) -> int:
        """Number h of unknowns zeta."""
        return sum(part.num_white for part in self._parts)

    def observe(self, predicted: jax.Array, zeta: jax.Array, eta: jax.Array) -> jax.Array:
        """Readings made of noise-free ones.

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
        """The noise variables that make the observed readings of the noise-free ones.

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
        """That of zeta (h,) alone, ()."""
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
        """What is unknown about the noise, by name.

        ``sigma``, (), of each group of readings that share it, (h,), or of each reading, (d,); and
        of the shape, ().
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
            log p(y | F, zeta), with all constants; -inf if relative noise were to change a sign.
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
            unit of the readings; -inf where relative noise were to change a sign.  Of a censored
            reading log P(y <= y_i), or of y >= y_i (Tobin 1958, eq. 4); 0 of one left out.
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
        if self.censored is not None:
            each = jnp.where(self.censored == 0.0, each, log_ndtr(-self.censored * eta))
        each = jnp.where(is_impossible, -jnp.inf, each)
        return each if self.censored is None else jnp.where(self.censored == LEFT_OUT, 0.0, each)

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
            Mean square of the score over readings that the noise makes, by quadrature.
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
        """The same noise of readings of which some are censored.

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
        """The same noise with one reading left out of the density; it is still predicted.

        Parameters
        ----------
        row : int
            Number of the reading, from 0.
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
        """The noise of some of the readings, (k,) numbers, none of them censored."""
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
        """The same noise with the coordinate of its unknown scale chosen for values near sigma.

        Parameters
        ----------
        sigma : () or (d,)
            Positive, in units of the scale; of (d,) each group of readings takes its mean.

        Returns
        -------
        Noise
            Of the same prior; itself where the scale is known.
        """
        return replace(self, scale=self.scale.near(sigma)) if self.scale.num_white else self

    def check(self, observed: np.ndarray) -> None:
        """Refuse readings that the noise cannot have made.

        Parameters
        ----------
        observed : (d,)

        Raises
        ------
        InputError
            If sigma or the groups are for another number of readings, the noise is relative and
            a reading is 0; it is named by its index from 0; or ``inverse_transform`` is not the
            inverse of ``transform``.
        """
        observed = np.asarray(observed)
        self.scale.check(observed.size)
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
        """The part of zeta that belongs to the scale, and those of the shape parameters."""
        ends = np.cumsum([part.num_white for part in self._parts])
        return [
            zeta[end - part.num_white : end] for part, end in zip(self._parts, ends, strict=True)
        ]

    def _values(self, zeta):
        """Sigma, () or (d,), and the shape parameters, a tuple of ()."""
        parts = zip(self._parts, self._split(zeta), strict=True)
        sigma, *shape = (part.transform(score) for part, score in parts)
        return sigma, tuple(shape)

    def _score(self, predicted, observed, sigma, shape):
        """Eta, (d,), that makes observed of predicted: see :meth:`invert`."""
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
    """Values of the transformation with the medians of its parameters, and their inverse."""
    _, shape = noise._values(jnp.zeros(noise.num_parameters))
    values = noise.transform(etas, *shape)
    return values, noise.inverse_transform(values, *shape)
