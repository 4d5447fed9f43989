"""Element matrices of common equations, for :func:`invlift.linear_equation`.

Each is a sum over the element's Q quadrature points of a weight, a function of the coefficient,
times a symmetric matrix (m, m) that depends on the :class:`~invlift.fem.equations.terms.Element`
alone.  Coefficients of fields are logarithms, so that the physical values are positive; numbers are
used directly.
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
    """Base class of forms whose matrix is a weight of the coefficient times a fixed integrand.

    The integrand is integrated once, when the equation is assembled.  A new coefficient only scales
    the element matrices, and the derivatives are those of the weight.
    """

    def weight(self, coefficient: jax.Array) -> jax.Array:
        """Return the weight at each value of the coefficient, in an array of the same shape."""
        raise NotImplementedError

    def integrand(self, element: Element) -> np.ndarray | jax.Array:
        """Return the symmetric matrix at each point times its quadrature weight, (m, m, Q, ...).

        For E elements at once, the last axis of all arrays is that of the elements.
        """
        raise NotImplementedError

    def __call__(self, coefficient: jax.Array, element: Element) -> jax.Array:
        """Return the matrix of one element, (m, m), for the coefficient at its points, (Q,)."""
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
    """Return products of all pairs of functions at each point, times its weight: (m, m, Q, ...)."""
    xp = weight.__array_namespace__()  # NumPy's on the host, JAX's where a matrix is differentiated
    return xp.einsum(subscripts, functions, functions, weight)


class _Conduction(Weighted):
    """Integrals of exp(phi) grad v_i . grad v_j, for the term -div(exp(phi) grad u)."""

    weight = staticmethod(_exponential)

    def integrand(self, element):
        return _products("idq...,jdq...,q...->ijq...", element.gradient, element.weight)


class Anisotropic(Weighted):
    """Integrals of exp(phi) grad v_i . D grad v_j, for an anisotropic conductivity.

    Attributes
    ----------
    tensor : tuple of dim tuples of dim float
        D, symmetric.
    """

    tensor: tuple[tuple[float, ...], ...]

    weight = staticmethod(_exponential)

    def integrand(self, element: Element) -> np.ndarray | jax.Array:
        """As :meth:`Weighted.integrand`."""
        xp = element.weight.__array_namespace__()
        turned = xp.einsum("cd,jdq...->jcq...", xp.asarray(self.tensor), element.gradient)
        return xp.einsum("icq...,jcq...,q...->ijq...", element.gradient, turned, element.weight)


class Turned(Factored, settings=True):
    """:class:`Anisotropic` with an unknown ratio or angle as a further coefficient.

    With m = 1 / ratio - 1 and the unit vector n across the direction, D = 1 + m n n^T.  In the
    plane 2 n n^T is 1 - cos(2 angle) diag(1, -1) - sin(2 angle) (0 1; 1 0).

    Attributes
    ----------
    ratio, angle : float or None
        The known value, or None if it is a further coefficient.  If the angle is known, the parts
        are conduction along and across the direction.
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
    """Return the form of conduction whose conductivity differs along and across a direction.

    Parameters
    ----------
    ratio : float
        Conductivity along the direction over that across it; exp(phi) is the one along it.
    angle : float or None
        In the plane: angle between the direction and the x axis, in degrees.  In space: None; the
        conductivity is exp(phi) along horizontal layers, and across them is the z axis.
    dim : int
    unknown : collection of str
        Names of the further coefficients, "ratio" before "angle".

    Raises
    ------
    InputError
        If the ratio is not positive, or there is no angle in the plane, or an angle in space.
    """
    is_number = np.isscalar(ratio) and np.isfinite(ratio) and ratio > 0.0
    if not is_number and "ratio" not in unknown:
        found, remedy = f"{ratio!r}", "give the conductivity along over that across"
        raise InputError(("anisotropy", "ratio"), "a positive number", found, remedy)
    if (angle is None) == (dim == 2):
        expected = "the angle of the direction with the x axis, in degrees" if dim == 2 else (
            "none in space, where the ratio is of horizontal by vertical")  # fmt: skip
        remedy = "give it" if dim == 2 else "leave it out"
        found = "none" if angle is None else f"{angle!r}"
        raise InputError(("anisotropy", "angle"), expected, found, remedy)
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
    """Integrals of S v_i v_j, for the term S u with the coefficient S."""

    weight = staticmethod(_itself)

    def integrand(self, element):
        return _products("iq...,jq...,q...->ijq...", element.value, element.weight)


class _Reaction(_Storage):
    """Integrals of exp(c) v_i v_j, for the term exp(c) u.

    On facets this is the matrix of a Robin condition with an unknown coefficient.
    """

    weight = staticmethod(_exponential)


class _AlongLine(Weighted):
    """Integrals of T (dv_i/ds) (dv_j/ds) over edges of the plane, with the coefficient T.

    They add the flow along a line of width w and conductivity k, with T = w k.
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

    The inflow through the facet is h (U - u).  U is the last degree of freedom, with the constant
    function V = 1: a potential outside, or the ambient value of a Robin condition.
    """

    weight = staticmethod(_itself)

    def integrand(self, element):
        xp = element.weight.__array_namespace__()
        jump = xp.concatenate([element.value, -xp.ones_like(element.value[:1])])
        return _products("iq...,jq...,q...->ijq...", jump, element.weight)


class _Across(Weighted):
    """Integrals of (v_i - w_i)(v_j - w_j) / R over a facet, (2 m, 2 m), with the coefficient R.

    The functions w on the other side of the facet come after the v and have the same values.
    """

    weight = staticmethod(_inverse)

    def integrand(self, element):
        xp = element.weight.__array_namespace__()
        jump = xp.concatenate([element.value, -element.value])
        return _products("iq...,jq...,q...->ijq...", jump, element.weight)


class _Contact(_Exchange):
    """:data:`exchange` with h = 1 / z, for a contact whose impedance z is the coefficient."""

    weight = staticmethod(_inverse)


conduction, storage, reaction = _Conduction(), _Storage(), _Reaction()
exchange, contact, along_line, across = _Exchange(), _Contact(), _AlongLine(), _Across()


class Elasticity(Weighted):
    """Linear elasticity with Young's modulus exp(c), for displacements u.

    Integrals of exp(c) (2 mu eps_i : eps_j + lambda div v_i div v_j), where eps is the symmetric
    gradient, mu = 1 / (2 (1 + nu)) and lambda = nu / ((1 + nu) (1 - 2 nu)); in two dimensions this
    is plane strain, and lambda = nu / (1 - nu^2) plane stress.

    Attributes
    ----------
    poisson_ratio : float
        nu, between -1 and 0.5.
    is_plane_stress : bool
        True for a thin plate, in two dimensions.

    Raises
    ------
    InputError
        If nu is outside this range.
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
        """As :meth:`Weighted.integrand`."""
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
