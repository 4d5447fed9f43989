"""Inclusions of one or two materials in another: smooth thresholds of a Matern field.

log-conductivity = a + (b - a) Phi((g - t) / width), where a and b are the logarithms of the
conductivities of background and inclusions, g is a Matern field of standard deviation 1, and Phi is
the normal distribution function.  The mean of Phi(...) is Phi(-t / sqrt(1 + width^2)); t is chosen
so that this is the requested share of inclusions in the body (a level set prior: Iglesias, Lu &
Stuart 2016, with a smooth step).  With two materials, the resistive one is where g is below one
threshold, and the conductive one where g is above another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from scipy import special
from scipy.interpolate import CubicSpline

from invlift.errors import InputError, positive_number
from invlift.fem.fields.base import Nominal
from invlift.fem.fields.hyperpriors import checked, log_moments
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.mesh.mesh import Mesh
from invlift.keywords import earlier_names
from invlift.programs.pytrees import aside, static
from invlift.unknowns.distributions import Distribution, is_distribution
from invlift.unknowns.priors.mapped import MappedPrior
from invlift.unknowns.priors.named import NamedPrior

#: Name of the background, and the side of the field's threshold of each inclusion material.
BACKGROUND = "background"
SIDES = {"inclusion": 1.0, "resistive": -1.0, "conductive": 1.0}
#: Points and weights of the quadrature over a standard normal variable.
_POINTS = np.linspace(-9.0, 9.0, 4001)
_WEIGHTS = np.exp(-0.5 * _POINTS**2) / np.exp(-0.5 * _POINTS**2).sum()
#: Number of standard deviations of the field at which moments are computed, for interpolation.
_NUM_DEVIATIONS = 200
#: Widths of the step, in standard deviations of the field.
MIN_WIDTH, MAX_WIDTH = 0.01, 10.0


class InclusionPrior(MappedPrior):
    """Prior of phi = a + sum_k (b_k - a) Phi(side_k (g - t_k) / width) at the nodes, (N,).

    Build it with :func:`inclusion_prior`.  ``prior``, a :class:`NamedPrior`, is the prior of the
    field g and of the unknown conductivities.

    Attributes
    ----------
    logs : dict of str to ()
        Logarithms of the known conductivities, by material.
    thresholds : dict of str to ()
        t of each material except the background.
    width : ()
        Width of the step, in standard deviations of g.
    location : str
        ``"nodes"``.
    mesh : Mesh or None
        Mesh of the field, for results of the posterior.
    nominal : tuple of Nominal
        The requested range.
    """

    logs: dict[str, jax.Array]
    thresholds: dict[str, jax.Array]
    width: jax.Array
    location: str = static(default="nodes")
    mesh: Mesh | None = aside()
    nominal: tuple[Nominal, ...] | None = aside()

    def map(self, inner: jax.Array) -> jax.Array:
        """Return phi, (N,), from an array of g at the nodes and the unknown conductivities."""
        num_nodes = self.prior.shapes[0][1][0]
        names = (name.removeprefix("prior_") for name, _ in self.prior.shapes[1:])
        logs = self.logs | dict(zip(names, jnp.log(inner[num_nodes:]), strict=True))
        low, field = logs[BACKGROUND], inner[:num_nodes]
        return low + sum((logs[name] - low) * each for name, each in self._shares(field).items())

    def _shares(self, field):
        """Return the shares of all materials except the background, for values of the field."""
        distances = {name: SIDES[name] * (field - at) for name, at in self.thresholds.items()}
        return {name: ndtr(each / self.width) for name, each in distances.items()}

    @property
    def materials(self) -> dict[str, float | str]:
        """Known conductivities, and names of the unknown ones, by material."""
        unknown = {name: f"prior_{name}" for name in (BACKGROUND, *self.thresholds)}
        return unknown | {name: math.exp(each) for name, each in self.logs.items()}

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """Return the unknown conductivities, by names such as ``prior_background``."""
        _, *numbers = self.prior.split(white)
        return {name: part.transform(own) for name, part, own in numbers}

    def pointwise_std(self) -> np.ndarray:
        """Return the marginal prior standard deviation at each node, (N,), over all unknowns."""
        realised = self.prior.parts["field"].pointwise_std()
        grid = np.linspace(0.0, realised.max(), _NUM_DEVIATIONS)
        return CubicSpline(grid, self._std_at(grid))(realised)

    def _std_at(self, deviations: np.ndarray) -> np.ndarray:
        """Return the standard deviation of phi for deviations of the field, (k,), by quadrature."""
        mean = np.mean(self.prior.parts["field"].mean)  # the same at all nodes
        field = mean + deviations[:, None] * _POINTS
        shares = {name: np.asarray(each) for name, each in self._shares(field).items()}
        shares[BACKGROUND] = 1.0 - sum(shares.values())
        moments = {name: self._moments(name) for name in shares}
        mean = sum(moments[name][0] * each for name, each in shares.items())
        variance = sum(moments[name][1] ** 2 * each**2 for name, each in shares.items())
        return np.sqrt((variance + (mean - (mean @ _WEIGHTS)[:, None]) ** 2) @ _WEIGHTS)

    def _moments(self, material):
        """Return mean and standard deviation of the logarithm of a conductivity."""
        if material in self.logs:
            return float(self.logs[material]), 0.0
        moments = log_moments(self.prior.parts[f"prior_{material}"])
        return moments.log_mean, moments.log_sd


@earlier_names(correlation_range="range")
def inclusion_prior(
    mesh: Mesh,
    *,
    background: float | Distribution,
    inclusion: float | Distribution | Mapping[str, float | Distribution],
    range: float,
    smoothness: float,
    share: float = 0.5,
    width: float = 0.5,
) -> InclusionPrior:
    """Build a prior of inclusions in a body, with edges at unknown positions.

    Parameters
    ----------
    mesh : Mesh
    background : float or distribution
        The conductivity around inclusions, in its unit.
    inclusion : float, distribution, or mapping of str to float or distribution
        The conductivity of inclusions; or those of two materials, ``resistive`` and ``conductive``,
        the first below that of the background and the second above it.
    range : float
        Approximate size of an inclusion, in the mesh's unit of length: the correlation range of the
        field to which the threshold is applied.
    smoothness : float
        Smoothness nu of the field: edges are ragged for nu = 1 in 2-D and 1/2 in 3-D, and smooth
        for larger values.
    share : float
        Prior share of inclusions in the body, between 0 and 1.  Each of two materials has half of
        it.
    width : float
        Width of the step, in standard deviations of the field, from 0.01 to 10.  For nu = 2 in 2-D
        the conductivity changes from 16 to 84 % over about half of ``width`` times the range.

    Returns
    -------
    InclusionPrior
        Prior of the log-conductivity at the nodes, and of unknown conductivities.

    Raises
    ------
    InputError
        As :func:`invlift.matern_prior`.  Also if a conductivity, share or width is out of its
        range; if there are other materials; or if the conductivity of the background is not between
        those of the resistive and the conductive material.
    """
    if not 0.0 < share < 1.0:
        raise InputError(("prior", "share"), "a number between 0 and 1", f"{share!r}", "correct it")
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        expected = f"a number from {MIN_WIDTH} to {MAX_WIDTH}"
        remedy = "give it in standard deviations of the field: 0.5, for example"
        raise InputError(("prior", "width"), expected, f"{width!r}", remedy)
    materials = inclusion if isinstance(inclusion, Mapping) else {"inclusion": inclusion}
    names = list(materials)
    if names != ["inclusion"] and set(names) != {"resistive", "conductive"}:
        found, remedy = ", ".join(names) or "none", "give a conductivity of each of the two"
        raise InputError(("prior", "inclusion"), "resistive and conductive", found, remedy)
    if is_distribution(range):
        remedy = "give a number: the size of inclusions is not an unknown"
        raise InputError(("prior", "range"), "a number", f"{range!r}"[:80], remedy)
    threshold = math.hypot(1.0, width) * special.ndtri(share / len(names))
    # The field of one material is compared with 0.
    mean, thresholds = (threshold, {names[0]: 0.0}) if len(names) == 1 else (
        0.0, {name: -SIDES[name] * threshold for name in names})  # fmt: skip
    field = matern_prior(
        mesh,
        range=range,
        std=1.0,
        smoothness=smoothness,
        mean=mean,
        boundary="robin",  # so that the share hardly changes near the boundary
    )
    parts, logs, levels = {"field": field}, {}, {}
    for name, value in ({BACKGROUND: background} | dict(materials)).items():
        value = checked(name, value)
        if isinstance(value, Distribution):
            parts[f"prior_{name}"] = value
            levels[name] = log_moments(value).log_mean
        else:
            levels[name] = math.log(positive_number(("prior", name), value))
            logs[name] = np.float64(levels[name])
    if names[1:] and not levels["resistive"] < levels[BACKGROUND] < levels["conductive"]:
        expected = "a resistive material below the background, and a conductive one above it"
        found = ", ".join(f"{name} {math.exp(each):.3g}" for name, each in levels.items())
        raise InputError(("prior", "inclusion"), expected, found, "correct them")
    shapes = (("field", (mesh.num_nodes,)), *((name, ()) for name in list(parts)[1:]))
    inner = NamedPrior(parts, shapes, ("",) * len(parts), ((),) * len(parts))
    thresholds = {name: np.float64(each) for name, each in thresholds.items()}
    logs, thresholds, width = jax.device_put((logs, thresholds, np.float64(width)))
    nominal = (Nominal(range),)
    return InclusionPrior(inner, logs, thresholds, width, mesh=mesh, nominal=nominal)
