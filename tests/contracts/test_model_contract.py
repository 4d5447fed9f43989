"""Every model of the library, and the base class's derivatives of a function."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import skfem
from contract_checks import STEPS, WIDTH, assert_close, assert_remainders, in_turn
from scipy.sparse import csr_array, vstack
from structured import box_mesh, interior_points

from invlift.fem.electrodes.complete import electrode_model
from invlift.fem.electrodes.offsets import electrode_offsets
from invlift.fem.electrodes.offsets import with_offsets as with_offsets_of
from invlift.fem.electrodes.point_electrodes import point_electrode_model
from invlift.fem.electrodes.reference import difference_to_reference
from invlift.fem.electrodes.wave_numbers import WaveNumbers
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.combined_equation import CombinedEquation
from invlift.fem.equations.equation import EquationFamily, LinearEquation
from invlift.fem.equations.equation_arguments import Functionals, Input
from invlift.fem.equations.equation_assembly import Form, linear_equation
from invlift.fem.equations.experiments import Experiment, Experiments
from invlift.fem.equations.forms import Elasticity, conduction, reaction
from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.equations.surveys import join_surveys
from invlift.fem.equations.system import EquationSystem
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.fields.random_field import random_field
from invlift.fem.mesh.finer_mesh import Extrapolated, OnFinerMesh
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import Sensors, sensors_from_arrays
from invlift.fem.time.assembly import assemble_transient
from invlift.fem.time.schedules import oscillation, steps
from invlift.models.base import AroundModel, CombinedFunction, ForwardModel, JaxFunction
from invlift.models.corrected import AffineModel, Shifted, corrected
from invlift.models.joined import Combinations, CombinedReadings, Joined
from invlift.models.named_model import NamedModel
from invlift.problems.numpyro.numpyro_problem import SitesModel, numpyro_problem
from invlift.programs.compilation import Program
from invlift.unknowns.distributions import lognormal, normal


def poisson():
    mesh = box_mesh(2, 2)
    sensors = sensors_from_arrays(interior_points(2, 3), np.zeros(3))
    conditions = {"dirichlet": {"left": 0.3}, "robin": {"top": (2.0, 0.5)}}
    return assemble_poisson(mesh, locate(mesh, sensors), source=2.0, **conditions)


def equation():
    """Two experiments and two forms with coefficients of their own, on quadratic elements."""
    basis = skfem.Basis(skfem.MeshQuad().refined(1), skfem.ElementQuad2())
    points = basis.probes(interior_points(2, 2).T).tocsr()

    def source(value, element):
        by_point = jnp.stack([jnp.sin(3.0 * value), jnp.exp(value)]) * element.weight
        return element.value @ by_point.T

    return linear_equation(
        [Form(basis, conduction), Form(basis, reaction, source, location="cells", start=9)],
        readings=[points, points[:1]],
        load=np.outer(np.ones(basis.N), [0.1, 0.2]),
        held=basis.get_dofs(lambda x: x[0] < 1e-9),
        values=np.outer(np.ones(5), [0.1, 0.2]),
    )


def two_loads():
    """Enough readings that combinations of them take fewer solves; the last number is held."""
    basis = skfem.Basis(skfem.MeshTri().refined(1), skfem.ElementTriP1())
    held = basis.get_dofs(lambda x: x[0] < 1e-9).flatten()
    return linear_equation(
        Form(basis, conduction),
        readings=[basis.probes(interior_points(2, num).T).tocsr() for num in (8, 5)],
        load=np.outer(np.ones(basis.N), [0.1, 0.2]),
        held=held,
        values=np.outer(np.ones(held.size), [0.1, 0.0]),
        inputs=[Input(9, load=0.3, values=np.outer(np.ones(held.size), [1.0, 0.5]))],
    )


def affine_equation():
    """All that readings and loads can be: of reactions and coefficients, affine, partly known."""
    rng = np.random.default_rng(4)
    basis = skfem.Basis(skfem.MeshQuad().refined(1), skfem.ElementQuad1())
    edge = skfem.FacetBasis(
        basis.mesh, basis.elem, facets=basis.mesh.facets_satisfying(lambda x: x[0] > 1 - 1e-9)
    )
    held = basis.get_dofs(lambda x: x[0] < 1e-9).flatten()
    points = basis.probes(interior_points(2, 3).T).tocsr()

    def gain(value, element):
        return jnp.outer(element.value @ element.weight, jnp.exp(value[0]) * jnp.ones(2))

    tests = np.zeros((2, 4, 2))
    tests[1] = rng.standard_normal((4, 2))
    weights = np.zeros((2, basis.N))
    weights[:, held] = rng.standard_normal((2, held.size))
    own = np.zeros((2, 13))
    own[1, [2, 12]] = 1.0, -0.5
    fluxes = csr_array(rng.standard_normal((2, 2)))
    one = Functionals(points[:-1], fluxes, csr_array(own))
    two = Functionals(points[1:2], csr_array([[0.0, 1.0]]))
    return linear_equation(
        [
            Form(basis, conduction, known=np.array([np.nan, 0.4, np.nan, np.nan])),
            Form(edge, reaction, gain, location=np.array([9, 9]), tests=tests),
        ],
        readings=[one, two],
        load=np.outer(rng.random(basis.N), [1.0, 2.0]),
        held=held,
        values=np.outer(np.ones(3), [0.1, 0.2]),
        inputs=[
            Input(10, load=rng.random((basis.N, 2))),
            Input(11, values=rng.random((3, 2))),
            Input(9, load=1.0, values=[[0.5, 0.0]] * 3),
        ],
        constant=csr_array(0.2 * np.eye(basis.N) + 0.1 * np.eye(basis.N)[::-1]),
        reactions=csr_array(weights),
        num_coefficients=13,
    )


def elastic():
    """A beam: the deflection of its end, and the forces that hold the other."""
    basis = skfem.Basis(skfem.MeshQuad().refined(1), skfem.ElementVector(skfem.ElementQuad1()))
    held = basis.get_dofs(lambda x: x[0] < 1e-9).flatten()
    forces = np.zeros((2, basis.N))
    forces[[0, 1], held[:2]] = 5.0
    points = basis.probes(np.array([[1.0], [1.0]])).tocsr()
    rows = vstack([points[1:], csr_array((2, basis.N))])
    return linear_equation(
        Form(basis, Elasticity(0.3)),
        readings=Functionals(rows, csr_array(np.eye(3, 2, -1))),
        load=skfem.LinearForm(lambda v, w: -1.0 * v[1]).assemble(basis),
        held=held,
        reactions=csr_array(forces),
    )


def field(**further):
    """All that a field problem can have: kinds of readings, unknown conditions, a known part."""
    mesh, nan = box_mesh(2, 2), np.nan
    inside = np.flatnonzero(np.isclose(mesh.points[:, 0], 0.5) & (mesh.points[:, 1] < 0.6))
    mesh = replace(mesh, boundaries=mesh.boundaries | {"inside": inside[None]})
    sensors = sensors_from_arrays(
        [[nan, nan], [0.3, 0.7], [0.4, 0.4]],
        np.zeros(3),
        kinds=["flux", "point", "log_conductivity"],
        over=["top", "", ""],
        groups=["a", "b", "a"],
    )
    some, positive = normal(0.0, 1.0), lognormal(median=1.0, factor=2.0)
    return assemble_poisson(
        mesh,
        locate(mesh, sensors, offsets={"b": some}),
        source={"low": some, "high": 2.0},
        dirichlet={"left": random_field(0.3, 1.0, 2.0)},
        neumann={"right": some},
        robin={"top": (positive, some), "bottom": (2.0, 0.3)},
        known={"high": 2.0},
        thickness=1.0 + mesh.points[:, 0],
        anisotropy={"ratio": positive, "angle": normal(30.0, 20.0)},
        **further,
    )


def electrodes():
    """Between three sides, whose contact impedances are unknown; a part is known."""
    currents = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    groups = ["left", "top", "right"]
    impedance = lognormal(median=1.0, factor=2.0)
    voltages = [currents, currents[:1]]
    return electrode_model(
        box_mesh(2, 2), groups, currents, voltages, impedance=impedance, known={"high": 2.0}
    )


def difference():
    """The same less those of a body whose conductivity is unknown."""
    return difference_to_reference(electrodes(), lognormal(median=2.0, factor=1.5))


def with_offsets():
    """The same, with an offset of each of the two pairs that are read."""
    unit = np.eye(3)
    sensors = Sensors(
        np.full((3, 2), np.nan),
        np.zeros(3),
        None,
        np.arange(3),
        "tank",
        electrodes=np.array([["1", "2", "1", "2"], ["1", "2", "2", "3"], ["2", "3", "2", "1"]]),
    )
    offsets = electrode_offsets(sensors, {"pair": normal(0.0, 1.0)}, ["left", "top", "right"])
    model = difference()
    weights = np.array([unit[0] - unit[1], unit[1] - unit[2], unit[1] - unit[0]])
    return with_offsets_of(model, offsets, MATRIX, sensors, weights)


def in_time():
    """A well and values outside that change in steps, and others that oscillate."""
    mesh, positive = box_mesh(2, 2), lognormal(median=1.0, factor=2.0)
    sensors = sensors_from_arrays(
        [[0.3, 0.7], [0.3, 0.7], [0.4, 0.4]],
        np.zeros(3),
        times=[0.2, 0.7, 0.9],
        averaged_over=[np.nan, 0.5, np.nan],
        moment=[np.nan, 1.0, np.nan],
        groups=["", "", "a"],
    )
    changing = steps([[0.3, 2.0], [0.6, 0.5]], before=1.0)
    conditions = {
        "point_sources": [((0.6, 0.3), steps([[0.0, 1.0]]))],
        "source": 0.5,
        "dirichlet": {"left": oscillation([[1.5, 0.4, 0.2]], mean=0.3)},
        "robin": {"top": (positive, changing)},
    }
    observation = locate(mesh, sensors, offsets={"a": normal(0.0, 1.0)})
    return assemble_transient(mesh, [Experiment("a", observation, conditions)], storage=positive)


def surveys():
    """Two dates, the second on a refined mesh, with an offset that both have and a change."""
    mesh, names = box_mesh(2, 2), ("before", "after")
    models = [
        assemble_poisson(
            mesh,
            locate(
                mesh,
                sensors_from_arrays(interior_points(2, num), np.zeros(num), groups=["a"] * num),
                offsets={"a": normal(0.0, 1.0)},
            ),
            source=2.0,
            dirichlet={"left": 0.3},
            refine_solution=times,
        )
        for num, times in ((2, 0), (1, 1))
    ]
    change = matern_prior(mesh, range=1.0, std=0.5, smoothness=1.0)
    return join_surveys(dict(zip(names, models, strict=True)), {"after": change})


def points():
    """On a line, and currents that leave far away; a part is known."""
    at, some = [[0.25, 1.0], [0.5, 1.0], [1.0, 1.0]], np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -0.5]])
    voltages = [some, some[:1]]
    return point_electrode_model(
        box_mesh(2, 2), at, some, voltages, surface="top", known={"high": 2.0}
    )


def curved(theta):
    return jnp.stack([jnp.sin(theta[0]) * theta[1], theta[1] ** 3, jnp.exp(0.3 * theta[-1])])


def looped(theta):
    def step(state, _):
        state = 0.8 * state + jnp.sin(theta[0] * state)
        return state, state

    return jax.lax.scan(step, theta[-1], length=3)[1]


def branching(theta):
    """The same: the branch does not depend on values."""

    def step(state, number):
        wave = jax.lax.cond(number < 2, jnp.sin, jnp.tan, theta[0] * state)
        return 0.8 * state + wave, state

    return jax.lax.scan(step, theta[-1], jnp.arange(3))[1]


def by_name(rate, starts):
    return curved(jnp.append(starts.ravel(), rate)), {"half": 0.5 * rate}


class Written(ForwardModel):
    """A model with a Jacobian of its own."""

    matrix: jax.Array

    def __call__(self, coefficients):
        linear = self.matrix @ coefficients
        return jnp.tanh(linear) + 0.2 * linear**2

    def value_and_jacobian(self, coefficients):
        linear = self.matrix @ coefficients
        slope = 1.0 - jnp.tanh(linear) ** 2 + 0.4 * linear
        return self(coefficients), slope[:, None] * self.matrix


def sites_and_a_loop():
    """A loop that does not depend on the first of two sites."""
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    mean = looped(jnp.stack([numpyro.sample("a", dist.Normal(0.0, 1.0)), 0.5]))
    numpyro.sample("y", dist.Normal(mean, scale).to_event(1), obs=np.array([0.3, 0.8, 1.2]))


def off(fn):
    """With an offset and a slope that are far from small."""
    slope, centre = np.random.default_rng(7).standard_normal((3, 5)), np.ones(5)
    return corrected(JaxFunction(fn), np.array([1.0, -2.0, 0.5]), slope, centre)


MATRIX = np.array([[1.0, -1.0, 0.0], [0.5, 0.0, 2.0], [0.0, 1.0, 1.0]])
#: Of the field, an exchange, an offset and a storage, of which the second and last are positive.
CENTRE = np.array([*9 * [0.0], 3.0, 0.0, 3.0])
#: Classes, what makes a model of one, sizes, spreads and centres of coefficients, and steps from
#: these: longer ones in time and of electrodes, where large numbers that cancel cost digits.
MODELS = {
    "equation, any element": (LinearEquation, equation, 13),
    "equation, affine": (LinearEquation, affine_equation, 13, 1.0),
    "equation, two loads": (LinearEquation, two_loads, 10),
    "equation, elastic": (LinearEquation, elastic, 9, 2.0),
    "in time": (Combinations, in_time, 12, 1.0, CENTRE, 5.0 * STEPS[:4]),
    "surveys": (Experiments, surveys, 19),
    "points": (WaveNumbers, points, 9),
    "electrodes, with offsets": (
        Combinations,
        with_offsets,
        15,
        0.3,
        np.repeat([0.0, 2.0, 0.5, 0.0], [9, 3, 1, 2]),
        5.0 * STEPS[:4],
    ),
    "on a finer mesh": (Extrapolated, lambda: poisson().on_mesh.refined(), 9),
    "on a cut mesh": (
        OnFinerMesh,
        lambda: field(barriers={"inside": lognormal(median=1.0, factor=2.0)}),
        20,
        0.3,
        np.repeat([0.0, 2.0], [9, 11]),
    ),
    "on a finer mesh, electrodes": (
        Combinations,
        lambda: Combinations(electrodes(), MATRIX).on_mesh.refined(),
        12,
        0.3,
        np.repeat([0.0, 2.0], [9, 3]),
        5.0 * STEPS[:4],
    ),
    "corrected": (Combinations, lambda: Combinations(off(curved), MATRIX), 5),
    "function": (JaxFunction, lambda: JaxFunction(curved), 5),
    "function, more readings": (JaxFunction, lambda: JaxFunction(curved), 2),
    "function, with a loop": (JaxFunction, lambda: JaxFunction(looped), 2),
    "function, with a branch in a loop": (JaxFunction, lambda: JaxFunction(branching), 2),
    "with a Jacobian of its own": (Written, lambda: Written(MATRIX), 3),
    "of names": (NamedModel, lambda: NamedModel(by_name, (("rate", ()), ("starts", (2, 2)))), 5),
    "of sites, with a loop": (SitesModel, lambda: numpyro_problem(sites_and_a_loop).model, 2),
}


@partial(Program, effort="none")
def look_at_model(model, whole, at, along, bend, directions, weights, by_readings):
    (value, jacobian), expansion = model.linearise(at)
    product, pushed = model.push_forward(expansion, directions)
    alone, without = model.expand(at)
    second, lower = model.higher_derivative(without, (along,), ())
    third, _ = model.higher_derivative(without, (along, bend), lower)
    by_adjoint, _ = model.higher_derivative(expansion, (along,), ())
    by_all = () if whole is None else (by_readings,)
    found = {
        "value": value,
        "call": model(at),
        "expanded": alone,
        "Jacobian": jacobian,
        "pushed": product,
        "pull_back": model.pull_back(expansion, pushed, lambda rows: rows @ weights, *by_all),
        "first": model.derivative(without, along),
        "by bend": model.derivative(without, bend),
        "second": second,
        "first where it was linearised": model.derivative(expansion, along),
        "second where it was linearised": by_adjoint,
        "third": third,
    }
    if whole is not None:
        found["whole"] = whole(at)
        found["readings"] = model.readings_at(expansion)
        found["readings, expanded"] = model.readings_at(without)
    return found


def check_model(model, size, spread=0.5, centre=0.0, steps=STEPS, whole=None, matrix=None):
    """Derivatives along a curve to the third, and products with the Jacobian.

    Of combinations by a matrix of the readings of a whole model, these as well.
    """
    rng = np.random.default_rng(2)
    coefficients, along = spread * rng.standard_normal((2, size))
    bend = spread * np.random.default_rng(3).standard_normal(size)
    coefficients = centre + coefficients
    directions, weights = rng.standard_normal((size, 3)), rng.standard_normal((3, 3))
    weights = weights + weights.T
    by_readings = rng.standard_normal(3 if matrix is None else matrix.shape[1])

    def look(move):
        at = coefficients + move * along + 0.5 * move**2 * bend
        given = at, along, bend, directions, weights, by_readings
        return jax.tree.map(np.asarray, look_at_model(model, whole, *given))

    def weighted(found):
        total = np.sum(weights * (found["Jacobian"] @ directions))
        return total if whole is None else total + by_readings @ found["whole"]

    here, near = look(0.0), [look(step)["call"] for step in steps]
    for name in ("value", "expanded"):
        assert_close(name, here[name], here["call"], 1e-12)
    derivatives = [here["call"], here["first"], here["second"] + here["by bend"], here["third"]]
    for order in (2, 3, 4):
        assert_remainders(f"derivative {order - 1}", near, derivatives[:order], steps)
    assert_close("Jacobian", here["Jacobian"] @ along, here["first"], 1e-11)
    for order in ("first", "second"):
        assert_close(order, here[f"{order} where it was linearised"], here[order], 1e-9)
    assert_close("push_forward", here["pushed"], here["Jacobian"] @ directions, 1e-11)
    ahead, behind = (weighted(look(sign * WIDTH)) for sign in (1, -1))
    assert_close("pull_back", here["pull_back"] @ along, (ahead - behind) / (2 * WIDTH), 1e-6)
    if whole is not None:
        assert_close("combinations", here["call"], matrix @ here["whole"], 1e-12)
        for name in ("readings", "readings, expanded"):
            assert_close(name, here[name], here["whole"], 1e-12)


@cache
def model_of(name):
    kind, make, *_ = MODELS[name]
    model = make()
    assert type(model) is kind
    return model


#: Classes of combinations of the readings of models, which stand for these: their derivatives are
#: those of the models.
COMBINED = {
    "equation, two loads": CombinedEquation,
    "corrected": CombinedReadings,
    "on a finer mesh": Extrapolated,
    "function": CombinedFunction,
}
#: Further forms of equations, what refines as another does, and what takes longest.
SLOW = {"equation, elastic", "equation, any element", "on a finer mesh, electrodes", "in time"}
SLOW.add("electrodes, with offsets")


@pytest.mark.parametrize("name", in_turn(MODELS, MODELS.keys() - SLOW))
def test_model(name):
    model, (size, *further) = model_of(name), MODELS[name][2:]
    if name not in COMBINED:
        check_model(model, size, *further)
        return
    num = jax.eval_shape(model, np.zeros(size)).shape[0]
    matrix = np.random.default_rng(4).standard_normal((3, num))
    combined = model.combined(jnp.asarray(matrix))
    assert type(combined) is COMBINED[name]
    check_model(combined, size, *further, whole=model, matrix=matrix)


def test_every_class_is_tried():
    """As the test of each asserts its class."""
    shared = ForwardModel, AroundModel, LinearlyMapped, Joined, EquationFamily, EquationSystem
    bases = *shared, CombinedReadings, Shifted
    found = {each for base in bases for each in base.__subclasses__()} - {*shared}
    own = {each for each in found if each.__module__.startswith("invlift.")}
    within, corrected = model_of("in time").model, model_of("corrected").model
    inside = {type(within), type(within.shifted), type(model_of("surveys").equations[0])}
    offset, shift = model_of("electrodes, with offsets").model.equations
    assert (type(offset), type(shift)) == (LinearlyMapped, AffineModel)
    inside |= {type(corrected), Shifted, AffineModel, type(offset.model), type(offset.model.body)}
    assert own == {kind for kind, *_ in MODELS.values()} - {Written} | inside | {*COMBINED.values()}


def test_sites_beside_a_loop_are_found():
    assert model_of("of sites, with a loop").in_loops == (False, True)


class Wrong(JaxFunction):
    """Negative control: one per cent off."""

    def derivative(self, expansion, direction):
        return 1.01 * super().derivative(expansion, direction)

    def pull_back(self, expansion, pushed, weigh):
        return 1.01 * super().pull_back(expansion, pushed, weigh)


def test_a_fault_is_found():
    with pytest.raises(AssertionError, match=r"^derivative 1: "):
        check_model(Wrong(curved), 5)
