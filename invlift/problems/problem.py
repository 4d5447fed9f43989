"""An inverse problem: model, prior, noise and data.

The unknowns are theta = (zeta, w): standard normal coordinates of the noise's unknown parameters,
and the standard normal variables that the prior transforms into coefficients x = X(w).  The data
obey y = F(x) + noise, the noise being a transformation of standard normal variables eta (Au, Graham
& Thiery 2023, eq. 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.lift.jacobians import JacobianStructure
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.lifted_form import Lifted
from invlift.models.base import ForwardModel
from invlift.models.named_readings import labels_of
from invlift.noise import Noise
from invlift.noise.given_draws import NoiseGivenDraws
from invlift.problems.descriptions import lines_of
from invlift.problems.problem_base import ProblemBase
from invlift.programs.compilation import Program, program
from invlift.programs.pytrees import Module, aside, static
from invlift.unknowns.axes import checked_unit
from invlift.unknowns.named import unpack
from invlift.unknowns.priors.base import Prior


class InverseProblem(ProblemBase, Module):
    """Model, prior, noise and data, which define a posterior.

    Build it with :func:`~invlift.problems.inverse_problem.inverse_problem`.

    Attributes
    ----------
    model : ForwardModel
        Coefficients (N,) to noise-free observations (d,).
    prior : Prior
        Standard normal variables (m,) to coefficients (N,).
    noise : Noise
        With h unknown parameters.
    observed : (d,)
        The data y.
    units : mapping of str to str or None
        See :meth:`with_units`.
    """

    model: ForwardModel
    prior: Prior
    noise: Noise
    observed: jax.Array
    units: Mapping[str, str] | None = aside()

    has_readings: ClassVar[bool] = True
    #: True if some readings are not lifted; :meth:`log_factor` is their log density.
    has_factor: ClassVar[bool] = False
    #: True if the noise is all that the density of a reading depends on, beside its prediction.
    can_leave_out: ClassVar[bool] = True
    # Settings by which subclasses choose their target.  Without annotation they are no fields.
    #: Structure of the constraint's derivatives by the last variables; None: dense.
    structure = None
    #: Indices of the unknowns in the order of positions; empty: unchanged order.
    order = ()

    @property
    def mesh(self) -> Any:
        """Mesh of the field, or the first of several meshes; None without a field."""
        meshes = (part.mesh for part in self.prior.placed.values())
        return next((mesh for mesh in meshes if mesh is not None), None)

    @property
    def sensors(self) -> Any:
        """The d sensors in use if the model has sensors, else None."""
        return self.model.on_mesh.sensors

    @property
    def has_time_steps(self) -> bool:
        """True if the model takes time steps that can be halved."""
        return self.model.finer is not None

    @property
    def whole(self) -> InverseProblem:
        """The problem with the original readings, if this one has other readings in their place."""
        return self

    @property
    def searched(self) -> InverseProblem:
        """The problem that is used to search for modes and starts."""
        return self

    def of_all_readings(self, matrix: jax.Array) -> jax.Array:
        """Return weights of all readings, (k, d), from those of readings of :attr:`searched`."""
        return matrix

    def of_searched(self, values: np.ndarray) -> np.ndarray:
        """Select values of readings of :attr:`searched` from those of all readings, (..., d)."""
        return values

    def to_whole(self, theta: jax.Array) -> jax.Array:
        """Return the unknowns of :attr:`whole`, (h + m,), from those of this problem."""
        return theta

    def readings_of_whole(self, predicted: jax.Array) -> jax.Array:
        """Return the predicted readings of :attr:`whole`, (d,), from those of this problem."""
        return predicted

    def reading_asked_for(self, index: int) -> tuple[InverseProblem, int | None]:
        """Return the user's problem, and the index there of a reading of this problem.

        The index is None for a combination of readings.
        """
        return self.whole, index

    def from_whole(self, lifted: jax.Array) -> jax.Array:
        """Map a point (theta, eta) on the lifted manifold of :attr:`whole` to this problem's."""
        return lifted

    @property
    def num_observations(self) -> int:
        """Number d of observations."""
        return self.observed.shape[0]

    @property
    def num_unknowns(self) -> int:
        """Number h + m of unknowns theta = (zeta, w)."""
        return self.noise.num_parameters + self.prior.num_white

    @property
    def coefficients_name(self) -> str | None:
        """Name of the coefficients in the draws; None if they have several names."""
        return None if self.prior.shapes else self.model.coefficients_name

    def split(self, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Split theta (h + m,) into zeta (h,) and w (m,)."""
        return theta[: self.noise.num_parameters], theta[self.noise.num_parameters :]

    def predict(self, theta: jax.Array) -> jax.Array:
        """Noise-free observations F(X(w)), (d,), at theta (h + m,)."""
        return self.model(self.prior.transform(self.split(theta)[1]))

    def value_and_jacobian(self, white: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Noise-free observations F(X(w)), (d,), and their derivatives by w, (d, m)."""
        coefficients, tangent = self.prior.linearise(white)
        predicted, by_coefficients = self.model.value_and_jacobian(coefficients)
        return predicted, tangent.pull(by_coefficients.T).T

    def noise_variables(self, predicted: jax.Array, zeta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Noise variables that explain the data, and their derivatives.

        Parameters
        ----------
        predicted : (d,)
            Noise-free readings.
        zeta : (h,)

        Returns
        -------
        eta : (d,)
            Without unit; each depends on its own prediction alone.
        slope : (d,)
            d eta / d predicted, in one over the unit of the readings.
        """

        def invert(predicted):
            return self.noise.invert(predicted, zeta, self.observed)

        return jax.jvp(invert, (predicted,), (jnp.ones_like(predicted),))

    def log_reference(self, zeta: jax.Array, white: jax.Array, eta: jax.Array) -> jax.Array:
        """Log density of (zeta, w, eta) relative to the normal one, plus log abs(det dg/dy).

        Parameters
        ----------
        zeta : (h,)
        white : (m,)
        eta : (d,)

        Returns
        -------
        ()
            The part of the lifted log density without the Gram term (Au, Graham & Thiery 2023,
            section 3).
        """
        noise = self.noise
        reference = noise.log_reference_of_noise(zeta, eta)
        reference = reference + self.log_reference_of_unknowns(zeta, white)
        return reference + noise.log_slope(self.observed, zeta, eta)

    def log_reference_of_unknowns(self, zeta: jax.Array, white: jax.Array) -> jax.Array:
        """Log density of (zeta, w) relative to the standard normal one.

        Parameters
        ----------
        zeta : (h,)
        white : (m,)

        Returns
        -------
        ()
            Includes the density of data that are not lifted and depend on the unknowns alone.
        """
        return self.noise.log_reference_of_parameters(zeta) + self.prior.log_reference(white)

    def log_factor(self, theta: jax.Array) -> jax.Array:
        """Log density of readings that are not lifted, (), at theta (h + m,)."""
        if not self.has_factor:
            return jnp.zeros(())
        zeta, white = self.split(theta)
        _, expansion = self.model.expand(self.prior.transform(white))
        return self.log_density_of_rest(self.model.readings_at(expansion), zeta)

    def log_density_of_rest(self, readings: jax.Array, zeta: jax.Array) -> jax.Array:
        """Log density of the part that is not lifted.

        Parameters
        ----------
        readings : (d,)
            All predicted readings.
        zeta : (h,)

        Returns
        -------
        ()
        """
        raise NotImplementedError

    def described(self, theta: jax.Array) -> dict[str, jax.Array]:
        """Return :meth:`describe` at theta, (h + m,); the other arguments are computed here."""
        coefficients = self.prior.transform(self.split(theta)[1])
        return self.describe(theta, coefficients, self.model(coefficients))

    def describe(self, theta: jax.Array, coefficients: jax.Array, predicted: jax.Array) -> dict:
        """Return the values that are stored with a draw, by name.

        Parameters
        ----------
        theta : (h + m,)
        coefficients : (N,)
        predicted : (d,)

        Returns
        -------
        dict of arrays
            The coefficients as the model describes them, ``predicted`` (d,), the unknown parameters
            of noise and prior, and ``noise_score`` (d,), the noise variables eta, if the noise has
            these.
        """
        zeta, white = self.split(theta)
        has_own_names = self.model.coefficients_name is None or self.coefficients_name is not None
        kept = self.model.describe if has_own_names else partial(unpack, shapes=self.prior.shapes)
        kept = kept(coefficients) | {"predicted": predicted}
        if not self.noise.is_exact and self.noise.is_transformed:
            eta = self.noise.invert(predicted, zeta, self.observed)
            kept["noise_score"] = self.noise.normal_scores_of(zeta, eta)
        return self.with_parameters(kept, zeta, white)

    def with_parameters(self, kept: dict, zeta: jax.Array, white: jax.Array) -> dict:
        """Return values of a draw with the unknown parameters of noise and prior, by name.

        Parameters
        ----------
        kept : dict of arrays
        zeta : (h,)
        white : (m,)

        Returns
        -------
        dict of arrays

        Raises
        ------
        InputError
            If two have one name.
        """
        for own in (self.noise.parameters(zeta), self.prior.parameters(white)):
            for name in {*kept} & {*own}:
                expected = "another name than that of a parameter of the noise or of a prior"
                raise InputError(("unknown", name), expected, f"{name!r}", "rename it")
            kept = kept | own
        return kept

    def with_units(self, units: Mapping[str, str]) -> Self:
        """Return the same problem with these units for its results.

        Parameters
        ----------
        units : mapping of str to str
            Units as written in results, by the names of draws, readings or their axes:
            ``{"half_life": "min", "time": "d"}``.  The unit of ``hare`` also applies to
            ``hare_path``.  Nothing is converted.

        Returns
        -------
        InverseProblem

        Raises
        ------
        InputError
            If a name is not that of a draw, reading or axis, a unit is not text, or a unit differs
            from that of the unknown.
        """
        if not isinstance(units, Mapping):
            expected = "a dict of units by name"
            raise InputError("units", expected, f"{units!r}"[:80], 'give {"level": "mV"}, say')
        known = [each.name for each in self.model.readings]
        known += [name.removesuffix("_path") for name in self.shapes_of_draws()]
        known += [*self.model.solutions, *self.axes]
        own = self.prior.units_by_name
        for name, unit in units.items():
            if str(name).removesuffix("_path") not in known:
                names = ", ".join(dict.fromkeys(known))
                raise InputError("units", f"names among {names}", f"{name!r}", "rename it")
            if checked_unit(f"units, {name}", unit) != own.get(name, unit):
                remedy = "give it once, that of the distribution: nothing is converted"
                raise InputError(f"units, {name}", f"the unknown's, {own[name]}", unit, remedy)
        return replace(self, units=dict(units))

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of readings and draws, such as time."""
        of_all = [each.axes for each in self.model.readings]
        of_all += [axes for _, axes in self.model.kept_axes]
        names = [axis for axes in of_all for axis, _ in axes]
        if self.sensors is not None and self.sensors.times is not None:
            names.append("time")
        return tuple(dict.fromkeys(names))

    def shapes_of_draws(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the values stored with one draw, by name."""
        shapes = jax.eval_shape(self.described, jax.ShapeDtypeStruct((self.num_unknowns,), float))
        return {name: each.shape for name, each in shapes.items()}

    def lifted(self) -> Lifted:
        """Return the target of constrained samplers.

        If its ``is_dense`` is false, the search for starts uses no dense derivatives.  Such a
        target has a field ``holds_noise`` if the noise has parameters: true if moves leave zeta
        unchanged.
        """
        return LiftedPosterior(self)

    def simulate(self, rng: np.random.Generator) -> tuple[InverseProblem, np.ndarray]:
        """Return the problem with simulated data, and the unknowns that produced them.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        InverseProblem
            With data drawn from prior and noise.
        (h + m,)
            The unknowns theta from which the data were simulated.
        """
        white = self.prior.sample(rng)
        zeta = self.noise.sample_parameters(rng)
        theta = np.concatenate([zeta, white])
        values = self.noise.sample(rng, np.asarray(prediction(self, theta)), zeta)
        return replace(self, observed=jax.device_put(values)), theta

    def arrays(self) -> dict[str, tuple[dict, np.ndarray]]:
        """Return readings that are arrays of the model, by name: coordinates by axis, and values.

        Empty if the readings of the model are one vector.
        """
        return {}

    def reading_noise(self) -> NoiseGivenDraws | None:
        """Return the noise of the readings given draws, for a posterior; None if not available.

        None for exact readings, and for noise known only by a joint density of all readings.  Else
        a :class:`~invlift.posterior.statistics.parts.ReadingNoise`.
        """
        if self.noise.is_exact or not self.noise.is_transformed:
            return None
        return NoiseGivenDraws(self.noise, np.asarray(self.observed))

    def lines(self) -> list[tuple[str, str]]:
        """As :meth:`ProblemBase.lines`: mesh, model, prior or unknowns, noise, readings."""
        mesh = [] if self.mesh is None else [("mesh", self.mesh.size)]
        return [*mesh, *lines_of(self.model, self.prior, self.noise, self.observed)]


class InPlaceOf(InverseProblem):
    """A problem of the same posterior as another one, with other readings or unknowns.

    Attributes
    ----------
    asked : InverseProblem
        The problem in whose place it is, with d readings.
    """

    asked: InverseProblem = field(kw_only=True)

    @property
    def whole(self) -> InverseProblem:
        """The problem with the original readings and unknowns."""
        return self.asked.whole


class ExactProblem(InverseProblem):
    """Inverse problem of exact readings.  Build it with :func:`inverse_problem`, noise None.

    Attributes
    ----------
    structure : JacobianStructure or None
        Structure of the derivatives of the readings by the last entries of w.  None: dense.
    """

    structure: JacobianStructure | None = static(default=None)

    def lifted(self) -> Lifted:
        """Return the target on the manifold of inputs that reproduce the readings."""
        return Lifted(self)


@partial(Program, effort="none")
def coefficients_at(prior: Prior, whites: jax.Array) -> jax.Array:
    """Return the coefficients, (K, N), at each w of (K, m); compiled once for all callers."""
    return jax.lax.map(prior.transform, whites)


@program
def prediction(problem: InverseProblem, theta: jax.Array) -> jax.Array:
    """Return :meth:`InverseProblem.predict`, compiled once for all callers."""
    return problem.predict(theta)


def name_of_reading(problem: InverseProblem, index: int) -> str:
    """Return the name of a reading for messages: its label, its sensor, or its index."""
    combination = index
    problem, index = problem.reading_asked_for(index)
    if index is None:
        return f"combination {combination} of the readings"
    if labels := labels_of(problem.model.readings):
        return labels[index]
    labels = getattr(problem.sensors, "labels", None)
    if labels is not None:
        return f"sensor {labels[index]}"
    return f"sensor {index}" if problem.model.solutions else f"reading {index}"


def names_of_constraints(target) -> list[str]:
    """Return the names of the readings, if the target is that of a problem with named readings."""
    model = getattr(getattr(target, "problem", None), "model", None)
    return labels_of(getattr(model, "readings", ()))
