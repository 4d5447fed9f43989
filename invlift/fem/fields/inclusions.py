"""Inclusions of one material in another: a smooth threshold of a Matern field.

log-conductivity = a + (b - a) Phi((g - t) / width), where a is the logarithm of the background's
conductivity, b that of the inclusions', g a Matern field of standard deviation 1 and Phi the normal
distribution function.  The mean of Phi(...) is Phi(-t / sqrt(1 + width^2)), which t sets to the
share that the inclusions are to have of the body (a level set prior: Iglesias, Lu & Stuart 2016,
with a smooth step).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from scipy import special

from invlift.errors import InputError
from invlift.fem.fields.base import Nominal, PriorTable
from invlift.fem.fields.hyperpriors import checked, moments
from invlift.fem.fields.matern import matern_prior
from invlift.fem.fields.matern_table import built
from invlift.fem.mesh.mesh import Mesh
from invlift.files.tables import number, one_of
from invlift.programs.pytrees import aside, static
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.distributions.tables import DISTRIBUTIONS
from invlift.unknowns.priors.mapped import MappedPrior
from invlift.unknowns.priors.named import NamedPrior

#: The two materials, by name.
MATERIALS = "background", "inclusion"
#: Widths of the step, in standard deviations of the field.
MIN_WIDTH, MAX_WIDTH = 0.01, 10.0


class InclusionPrior(MappedPrior):
    """phi = a + (b - a) Phi((g - t) / width) at the nodes, (N,).

    Build it with :func:`inclusion_prior`.  ``prior``, a :class:`NamedPrior`, is that of the field
    g - t and of those of the two conductivities that are unknown.

    Attributes
    ----------
    logs : dict of str to ()
        Logarithms of the conductivities that are known, by the names of their materials.
    width : ()
        Of the step, in standard deviations of g.
    location : str
        ``"nodes"``.
    mesh : Mesh or None
        Where the field lives, for those who read its posterior.
    nominal : tuple of Nominal
        The range that was asked for.
    """

    logs: dict[str, jax.Array]
    width: jax.Array
    location: str = static(default="nodes")
    mesh: Mesh | None = aside()
    nominal: tuple[Nominal, ...] | None = aside()

    def map(self, inner: jax.Array) -> jax.Array:
        """phi, (N,), of g - t at the nodes and the unknown conductivities behind it."""
        num_nodes = self.prior.shapes[0][1][0]
        names = (name for name, _ in self.prior.shapes[1:])
        logs = self.logs | dict(zip(names, jnp.log(inner[num_nodes:]), strict=True))
        low, high = (logs[each] if each in logs else logs[f"prior_{each}"] for each in MATERIALS)
        return low + (high - low) * ndtr(inner[:num_nodes] / self.width)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """``prior_background`` and ``prior_inclusion``, where they are unknown."""
        _, *numbers = self.prior.split(white)
        return {name: part.transform(own) for name, part, own in numbers}

    def pointwise_std(self) -> np.ndarray:
        """Prior standard deviation at each node, (N,), over all that is unknown.

        Notes
        -----
        With x the step's value and h = -t / sqrt(s^2 + width^2), s the field's realised deviation,
        E x = Phi(h) and E x^2 = Phi(h) - 2 T(h, width / sqrt(2 s^2 + width^2)), T being Owen's
        function (Owen 1956).
        """
        field, width = self.prior.parts["field"], float(self.width)
        std = field.pointwise_std()
        height = np.asarray(field.mean) / np.hypot(std, width)
        one = special.ndtr(height)
        two = one - 2.0 * special.owens_t(height, width / np.sqrt(2.0 * std**2 + width**2))
        (low, low_sd), (high, high_sd) = map(self._moments, MATERIALS)
        # phi = low (1 - x) + high x with independent low, high and x.
        jump = (high - low) ** 2 * (two - one**2)
        return np.sqrt(jump + low_sd**2 * (1.0 - 2.0 * one + two) + high_sd**2 * two)

    def _moments(self, material):
        """Mean and standard deviation of the logarithm of a conductivity."""
        if material in self.logs:
            return float(self.logs[material]), 0.0
        found = moments(self.prior.parts[f"prior_{material}"])
        return found.log_mean, found.log_sd


def inclusion_prior(
    mesh: Mesh,
    *,
    background: float | Distribution,
    inclusion: float | Distribution,
    correlation_range: float,
    smoothness: float,
    share: float = 0.5,
    width: float = 0.5,
) -> InclusionPrior:
    """Prior of inclusions of one conductivity in a body of another, with edges in unknown places.

    Parameters
    ----------
    mesh : Mesh
    background, inclusion : float or distribution
        The two conductivities, in their unit.
    correlation_range : float
        About the size of an inclusion, in the mesh's unit of length: the range of the field that is
        compared with a threshold.
    smoothness : float
        That of the field: edges are ragged for nu = 1 in the plane and 1/2 in space, smooth above.
    share : float
        Of the body that is inclusions, before the readings; between 0 and 1.
    width : float
        Of the step, in standard deviations of the field, from 0.01 to 10.  For nu = 2 in the plane
        the conductivity changes from 16 to 84 % over about half of ``width`` times the range.

    Raises
    ------
    InputError
        As :func:`invlift.matern_prior`, or if a conductivity, share or width is out of its range.
    """
    if not 0.0 < share < 1.0:
        raise InputError("prior share", "a number between 0 and 1", f"{share!r}", "correct it")
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        expected = f"a number from {MIN_WIDTH} to {MAX_WIDTH}"
        remedy = "give it in standard deviations of the field: 0.5, for example"
        raise InputError("prior width", expected, f"{width!r}", remedy)
    field = matern_prior(
        mesh,
        correlation_range=correlation_range,
        std=1.0,
        smoothness=smoothness,
        mean=math.hypot(1.0, width) * special.ndtri(share),
        boundary="robin",  # for a share that hardly changes near the boundary
    )
    parts, logs = {"field": field}, {}
    for name, value in zip(MATERIALS, (background, inclusion), strict=True):
        value = checked(name, value)
        if isinstance(value, Distribution):
            parts[f"prior_{name}"] = value
        elif 0.0 < value < math.inf:
            logs[name] = np.float64(math.log(value))
        else:
            raise InputError(f"prior {name}", "a positive number", f"{value!r}", "correct it")
    shapes = (("field", (mesh.num_nodes,)), *((name, ()) for name in list(parts)[1:]))
    inner = NamedPrior(parts, shapes, ("",) * len(parts), ((),) * len(parts))
    logs, width = jax.device_put((logs, np.float64(width)))
    nominal = (Nominal(correlation_range),)
    return InclusionPrior(inner, logs, width, mesh=mesh, nominal=nominal)


class InclusionsTable(PriorTable):
    """[prior] kind = "inclusions": one material in another, with edges in unknown places."""

    background: number(1e-130, 1e130) | one_of(DISTRIBUTIONS, "distribution")
    """The conductivity around the inclusions, in its unit."""
    inclusion: number(1e-130, 1e130) | one_of(DISTRIBUTIONS, "distribution")
    """The conductivity of the inclusions, in its unit."""
    range: number(1e-50, 1e50)
    """About the size of an inclusion, in the length unit of the mesh: the range of the field that
    is compared with a threshold."""
    smoothness: number(above=0.0, high=10.0)
    """The smoothness nu of that field, for example 2.0 in 2-D and 2.5 in 3-D: edges are ragged for
    1.0 and 0.5."""
    share: number(0.001, 0.999) = 0.5
    """The share of the body that is inclusions, before the readings."""
    width: number(MIN_WIDTH, MAX_WIDTH) = 0.5
    """The width of the step from one material to the other, in standard deviations of the field."""

    def build(self, mesh: Mesh, where) -> InclusionPrior:
        """Build the prior on a mesh: see :class:`PriorTable`."""
        del where
        return inclusion_prior(
            mesh,
            background=built(self.background),
            inclusion=built(self.inclusion),
            correlation_range=self.range,
            smoothness=self.smoothness,
            share=self.share,
            width=self.width,
        )
