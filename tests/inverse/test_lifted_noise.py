"""The lifted target under noise that is not Gaussian, or relative, against the density itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inverse_cases import CorrelatedPrior

from invlift.inverse.distributions import half_cauchy, lognormal
from invlift.inverse.inverse_problem import inverse_problem
from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import (
    gaussian_noise,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.programs.compilation import Program

NOISES = {
    "student-t": lambda: student_t_noise(0.3, 4.0),
    "student-t, unknown scale and degrees": lambda: student_t_noise(
        lognormal(-1.0, 0.5), lognormal(1.5, 0.5)
    ),
    "laplace, unknown scale": lambda: laplace_noise(half_cauchy(0.4)),
    "relative": lambda: gaussian_noise(0.2, relative=True),
    "relative, unknown scale": lambda: gaussian_noise(lognormal(-1.5, 0.5), relative=True),
    "relative student-t, two unknown scales": lambda: student_t_noise(
        unknown_scale(lognormal(-1.5, 0.5), groups=np.array([0, 1, 1])), 5.0, relative=True
    ),
    "quartic": lambda: potential_noise(lognormal(-1.0, 0.4), lambda x: 0.25 * x**4),
}


def positive(coefficients, matrix):
    """Positive, for relative noise."""
    return jnp.exp(0.4 * matrix @ coefficients) + 0.1 * coefficients[0] ** 2


class Case:
    def __init__(self, name, num_white):
        rng = np.random.default_rng(num_white)
        size = num_white + 1
        prior = CorrelatedPrior(
            jnp.asarray(rng.normal(size=size)), jnp.asarray(rng.normal(size=(size, num_white)))
        )
        matrix = jnp.asarray(rng.normal(size=(3, size)))
        model, observed = JaxFunction(positive, (matrix,)), rng.uniform(0.5, 2.0, 3)
        self.problem = inverse_problem(model, prior, NOISES[name](), observed)
        self.target = LiftedPosterior(self.problem)
        theta = 0.4 * rng.normal(size=self.problem.num_unknowns)
        self.position = Program(self.target.lift, "none")(theta)
        self.point = Program(self.target.point, "none")(self.position)

    def readings(self, position):
        """h(q) = the readings that unknowns and noise make."""
        zeta, white, eta = self.target.split(position)
        predicted = self.problem.model(self.problem.prior.transform(white))
        return self.problem.noise.observe(predicted, zeta, eta)

    def log_reference(self, position):
        zeta, _, eta = self.target.split(position)
        return self.problem.noise.log_reference(zeta, eta)


@pytest.fixture(scope="module", params=NOISES)
def case(request):
    """In turn with fewer and with more readings than unknowns."""
    return Case(request.param, (5, 1)[list(NOISES).index(request.param) % 2])


def test_density_is_that_of_the_readings(case):
    """-(1/2) log det of D h D h^T: the constraint is solved for the model, h for the readings."""

    @jax.jit
    def look(position):
        gram = case.target.point(position).gram.log_determinant()
        return (
            case.readings(position),
            jax.jacfwd(case.readings)(position),
            case.log_reference(position),
            gram,
        )

    readings, jacobian, log_reference, gram = map(np.asarray, look(case.position))
    np.testing.assert_allclose(readings, case.problem.observed, rtol=1e-10)
    np.testing.assert_allclose(case.point.constraint, 0.0, atol=1e-12)
    expected = -0.5 * np.linalg.slogdet(jacobian @ jacobian.T)[1] + log_reference
    np.testing.assert_allclose(case.point.logdensity, expected, rtol=1e-9, atol=1e-10)
    if case.problem.noise.relative:
        # Negative control: the constraint's own Gram matrix alone.
        assert abs(-0.5 * gram + log_reference - expected) > 1e-2


def test_density_pushes_forward_to_the_ordinary_posterior(case):
    """The area of the graph theta -> (theta, eta) turns one density into the other."""
    normalisation = 0.5 * case.problem.num_observations * np.log(2 * np.pi)

    def difference_at(theta):
        graph = jax.jacfwd(case.target.lift)(theta)
        log_area = 0.5 * jnp.linalg.slogdet(graph.T @ graph)[1]
        position = case.target.lift(theta)
        lifted = case.target.point(position).logdensity - 0.5 * position @ position + log_area
        return lifted - OrdinaryPosterior(case.problem).logdensity(theta)

    difference = Program(difference_at, "none")
    theta = case.position[: case.problem.num_unknowns]
    for factor in (1.0, -0.6):
        np.testing.assert_allclose(difference(factor * theta), normalisation, atol=1e-8)
