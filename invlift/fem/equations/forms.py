"""Matrices of one element for common equations, for :func:`invlift.linear_equation`.

Each is a weight, a function of the coefficient at the element's Q quadrature points, times
symmetric matrices (m, m) that follow from the :class:`~invlift.fem.equations.terms.Element` alone.
Coefficients of fields are logarithms, so that what they stand for is positive; numbers stand for
themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.fem.equations.terms import Element
from invlift.programs.pytrees import Module


class Weighted(Module, settings=True):
    """Base of forms whose matrix is a weight of the coefficient times what does not depend on it.

    The latter is integrated once, when the equation is assembled: a new coefficient only scales the
    matrices of the elements, and the derivatives are those of the weight.
    """

    def weight(self, coefficient: jax.Array) -> jax.Array:
        """The weight at points where the coefficient has these values, of the same shape."""
        raise NotImplementedError

    def integrand(self, element: Element) -> np.ndarray | jax.Array:
        """The matrix at each point times the point's weight, symmetric, (m, m, Q, ...).

        Of one element, or of E elements as arrays whose last axis is theirs.
        """
        raise NotImplementedError

    def __call__(self, coefficient: jax.Array, element: Element) -> jax.Array:
        """The matrix of one element, (m, m), for the coefficient at its points, (Q,)."""
        return self.integrand(element) @ self.weight(coefficient)


class Factored(Weighted, settings=True):
    """Base class of sums of forms that share one weight, each times its own factor.

    The factors are functions of further coefficients, which are the same in all elements.  The
    integrands must be constant in each element, as they are for linear elements.

    Attributes
    ----------
    parts : tuple of C Weighted
    """

    parts: tuple[Weighted, ...]

    def factors(self, further: Sequence[jax.Array]) -> jax.Array:
        """Return the factor of each part, (C, E), for the further coefficients, (E,) each."""
        raise NotImplementedError


def _exponential(coefficient):
    return jnp.exp(coefficient)


def _itself(coefficient):
    return coefficient


def _inverse(coefficient):
    return 1.0 / coefficient


def _products(subscripts: str, functions, weight):
    """Products of each two functions at each point, times its weight: (m, m, Q, ...)."""
    xp = weight.__array_namespace__()  # NumPy's on the host, JAX's where a matrix is differentiated
    return xp.einsum(subscripts, functions, functions, weight)


class _Conduction(Weighted):
    """Integrals of exp(phi) grad v_i . grad v_j, of -div(exp(phi) grad u)."""

    weight = staticmethod(_exponential)

    def integrand(self, element):
        return _products("idq...,jdq...,q...->ijq...", element.gradient, element.weight)


class Anisotropic(Weighted):
    """Integrals of exp(phi) grad v_i . D grad v_j, of a conductivity that depends on direction.

    Attributes
    ----------
    tensor : tuple of dim tuples of dim float
        D, symmetric.
    """

    tensor: tuple[tuple[float, ...], ...]

    weight = staticmethod(_exponential)

    def integrand(self, element: Element) -> np.ndarray | jax.Array:
        """As of :class:`Weighted`."""
        xp = element.weight.__array_namespace__()
        turned = xp.einsum("cd,jdq...->jcq...", xp.asarray(self.tensor), element.gradient)
        return xp.einsum("icq...,jcq...,q...->ijq...", element.gradient, turned, element.weight)


class Turned(Factored, settings=True):
    """:class:`Anisotropic` with an unknown ratio or angle, which are further coefficients.

    With m = 1 / ratio - 1 and n across the direction, D = 1 + m n n^T; in the plane 2 n n^T is 1 -
    cos(2 angle) diag(1, -1) - sin(2 angle) (0 1; 1 0).

    Attributes
    ----------
    ratio, angle : float or None
        The known value, None if it is a further coefficient.  If the angle is known, the parts are
        conduction along and across the direction.
    """

    ratio: float | None = None
    angle: float | None = None

    weight = staticmethod(_exponential)

    def factors(self, further: Sequence[jax.Array]) -> jax.Array:
        """As :meth:`Factored.factors`."""
        ratio = self.ratio if self.ratio is not None else further[0]
        across = 1.0 / ratio * jnp.ones_like(further[0])
        if len(self.parts) == 2:
            return jnp.stack([jnp.ones_like(across), across])
        half, twice = 0.5 * (across - 1.0), jnp.deg2rad(2.0 * further[-1])
        return jnp.stack([1.0 + half, -half * jnp.cos(twice), -half * jnp.sin(twice)])


def anisotropic(
    ratio: float | None, angle: float | None, dim: int, unknown: Collection[str] = ()
) -> Anisotropic | Turned:
    """Conduction that is stronger along a direction, or along layers, than across it.

    Parameters
    ----------
    ratio : float
        The conductivity along over that across; exp(phi) is the one along.
    angle : float or None
        Of the direction with the x axis, in degrees, in the plane.  In space layers are horizontal,
        and across them is the z axis; there is no angle then.
    dim : int
    unknown : collection of str
        Which of "ratio" and "angle" are further coefficients, in this order.

    Raises
    ------
    InputError
        If the ratio is not positive, there is no angle in the plane, or one in space.
    """
    is_number = np.isscalar(ratio) and np.isfinite(ratio) and ratio > 0.0
    if not is_number and "ratio" not in unknown:
        found, remedy = f"{ratio!r}", "give the conductivity along over that across"
        raise InputError(("anisotropy", "ratio"), "a positive number", found, remedy)
    if (angle is None) == (dim == 2):
        expected = "the angle of the direction with the x axis, in degrees" if dim == 2 else (
            "none in space, where the ratio is of horizontal by vertical")  # fmt: skip
        remedy = "give it" if dim == 2 else "leave it out"
        raise InputError(("anisotropy", "angle"), expected, f"{angle!r}", remedy)
    known = None if "ratio" in unknown else float(ratio)
    if "angle" in unknown:
        tensors = np.eye(2), np.diag([1.0, -1.0]), np.eye(2)[::-1]
        return Turned(tuple(map(_of_tensor, tensors)), known)
    across = np.array([0.0, 0.0, 1.0])
    if dim == 2:
        across = np.array([-np.sin(np.deg2rad(angle)), np.cos(np.deg2rad(angle))])
    across = np.outer(across, across)
    if known is None:
        return Turned((_of_tensor(np.eye(dim) - across), _of_tensor(across)), None, angle)
    return _of_tensor(np.eye(dim) + (1.0 / known - 1.0) * across)


def _of_tensor(tensor: np.ndarray) -> Anisotropic:
    return Anisotropic(tuple(map(tuple, tensor.tolist())))


class _Storage(Weighted):
    """Integrals of S v_i v_j, of the term S u, with S itself as the coefficient."""

    weight = staticmethod(_itself)

    def integrand(self, element):
        return _products("iq...,jq...,q...->ijq...", element.value, element.weight)


class _Reaction(_Storage):
    """Integrals of exp(c) v_i v_j, of the term exp(c) u.

    On facets the part of a Robin condition or of a contact whose coefficient is unknown.
    """

    weight = staticmethod(_exponential)


class _AlongLine(Weighted):
    """Integrals of T (dv_i/ds) (dv_j/ds) over edges of the plane, with T itself as the coefficient.

    What flows along a line of width w and conductivity k, w k = T, beside what flows in the body.
    """

    weight = staticmethod(_itself)

    def integrand(self, element):
        xp = element.weight.__array_namespace__()
        along = element.place[:, -1] - element.place[:, 0]  # edges are straight
        along = along / xp.sqrt(xp.sum(along**2, axis=0))
        slope = xp.einsum("idq...,d...->iq...", element.gradient, along)
        return _products("iq...,jq...,q...->ijq...", slope, element.weight)


class _Exchange(Weighted):
    """Integrals of h (v_i - V)(v_j - V) over a facet, (m + 1, m + 1).

    What flows in through it is h (U - u) where U, the last degree of freedom, of the function V, is
    what lies outside: a potential, or the ambient value of a Robin condition.
    """

    weight = staticmethod(_itself)

    def integrand(self, element):
        xp = element.weight.__array_namespace__()
        jump = xp.concatenate([element.value, -xp.ones_like(element.value[:1])])
        return _products("iq...,jq...,q...->ijq...", jump, element.weight)


class _Across(Weighted):
    """Integrals of (v_i - w_i)(v_j - w_j) / R over a facet, (2 m, 2 m), with R as the coefficient.

    The functions w on the other side of the facet, behind those of v, have the same values.
    """

    weight = staticmethod(_inverse)

    def integrand(self, element):
        xp = element.weight.__array_namespace__()
        jump = xp.concatenate([element.value, -element.value])
        return _products("iq...,jq...,q...->ijq...", jump, element.weight)


class _Contact(_Exchange):
    """:data:`exchange` by 1 / z: what flows through a contact of impedance z, the coefficient."""

    weight = staticmethod(_inverse)


conduction, storage, reaction = _Conduction(), _Storage(), _Reaction()
exchange, contact, along_line, across = _Exchange(), _Contact(), _AlongLine(), _Across()


class Elasticity(Weighted):
    """A linear elastic body with exp(c) as Young's modulus, for displacements u.

    Integrals of exp(c) (2 mu eps_i : eps_j + lambda div v_i div v_j), where eps is the symmetric
    gradient, mu = 1 / (2 (1 + nu)) and lambda = nu / ((1 + nu) (1 - 2 nu)); in two dimensions this
    is plane strain, and lambda = nu / (1 - nu^2) plane stress.

    Attributes
    ----------
    poisson_ratio : float
        nu, between -1 and 0.5.
    is_plane_stress : bool
        Of a thin plate, in two dimensions.

    Raises
    ------
    InputError
        If nu is not between these.
    """

    poisson_ratio: float = 0.3
    is_plane_stress: bool = False

    def __post_init__(self) -> None:
        if not -1.0 < self.poisson_ratio < 0.5:
            expected, found = "a number between -1 and 0.5", f"{self.poisson_ratio}"
            remedy = "give that of the material, such as 0.3 of steel"
            raise InputError("poisson_ratio", expected, found, remedy)

    weight = staticmethod(_exponential)

    def integrand(self, element: Element) -> np.ndarray | jax.Array:
        """As of :class:`Weighted`."""
        ratio = self.poisson_ratio
        shear = 1.0 / (2.0 * (1.0 + ratio))
        lame = ratio / ((1.0 + ratio) * (1.0 - 2.0 * ratio))
        lame = ratio / (1.0 - ratio**2) if self.is_plane_stress else lame
        strain = 0.5 * (element.gradient + element.gradient.swapaxes(1, 2))
        xp = element.weight.__array_namespace__()
        divergence = xp.einsum("iccq...->iq...", element.gradient)
        sheared = _products("icdq...,jcdq...,q...->ijq...", strain, element.weight)
        swollen = _products("iq...,jq...,q...->ijq...", divergence, element.weight)
        return 2.0 * shear * sheared + lame * swollen
