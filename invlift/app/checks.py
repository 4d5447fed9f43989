"""Pre-flight: is this problem well posed, are its derivatives right, do steps find back?

What takes no time, `run` refuses a problem by: the start of a chain, which is needed anyway, and
the standard deviation of the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import pdist

from invlift.app.field_problem import AnyProblem, FieldProblem, on_mesh, plain
from invlift.app.problem_file import ProblemSpec
from invlift.app.problems import PythonSpec
from invlift.app.sampling import target_of
from invlift.app.starts import (
    CLOSE_ENOUGH,
    MAX_MISFIT,
    Start,
    find_start,
    name_of_reading,
    random_starts,
)
from invlift.errors import InputError
from invlift.fem.mesh.functionals import facet_sizes
from invlift.fem.mesh.mesh import Mesh, mesh_quality
from invlift.fem.priors.base import Nominal
from invlift.fem.priors.partly_known import PartlyKnownPrior
from invlift.fem.voltages import electrode_numbers, geometric_factors
from invlift.inverse.problem import InverseProblem
from invlift.inverse.reduced import reduced
from invlift.inverse.targets.given_manifold import ManifoldProblem
from invlift.inverse.targets.laplace_whitened import laplace_whitened
from invlift.programs.compilation import Program
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import compile_chain, evaluate_state
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.constrained.landing import distance_from_manifold
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels.base import Kernel
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.targets import Sight

#: Fewest mesh widths across the prior's range that resolve it, and fewest with which the field has
#: any range of its own.
NODES_PER_RANGE, LEAST_PER_RANGE = 4.0, 0.5
#: Share of the standard deviation asked for below which the prior's own is remarkable, and below
#: which it is another prior.
LOW_STD, LEAST_STD = 0.7, 0.3
#: Share of a reading of uniform ground that a mesh may miss it by without a note.
FAR_OFF = 0.03
#: Share of the noise below which a reading's dependence on the field is none.
BLIND = 1e-3
#: Most unknowns of which a normal approximation is tried, draws of it, and the share of their
#: weights from which on it is near: 0.7 and 0.12 of hare and lynx and of potassium channels, where
#: NUTS is faster than constrained HMC; 0.05, 0.06 and 0.02 of sodium channels and two soils, where
#: it is not.
MANY_UNKNOWNS, NUM_WEIGHED, NEARLY_NORMAL = 50, 400, 0.1
#: Radius-ratio quality below which an element spoils the accuracy around it.
POOR_QUALITY = 0.1
#: Size of the step that is tried forwards and backwards.
TRIAL_STEP = 0.3
#: Difference steps of the Taylor tests.
TAYLOR_STEPS = 2.0 ** -np.arange(3, 10)


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: Literal["ok", "note", "bad"]
    name: str
    detail: str

    def __str__(self) -> str:
        """Return name and detail."""
        return f"{self.name}: {self.detail}"


@dataclass(frozen=True)
class Report:
    """Everything found."""

    findings: list[Finding]
    description: str = ""  # what a problem of a Python file is made of, in lines

    @property
    def is_good(self) -> bool:
        """Whether nothing bad was found."""
        return all(finding.level != "bad" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        bad = [finding.name for finding in self.findings if finding.level == "bad"]
        if bad:
            return f"Not ready to run: mend {', '.join(bad)} first."
        notes = [finding.name for finding in self.findings if finding.level == "note"]
        return f"Ready to run; take note of {', '.join(notes)}." if notes else "Ready to run."


#: Of the kernel that problems are looked over for; its integrator is tried.
_KERNEL = ConstrainedHMC()


@partial(Program, effort="none")
def _sight(lifted, position, heading) -> Sight:
    """One program for all that is asked of single positions: its parts share a factorisation."""
    return lifted.look(position, heading)


def _evaluate(lifted, position):
    return _sight(lifted, position, np.zeros(lifted.dimension)).point


def check_problem(
    problem: AnyProblem, spec: ProblemSpec | PythonSpec | None = None, *, seed: int = 0
) -> Report:
    """Look a problem over.

    Parameters
    ----------
    problem : InverseProblem, ManifoldProblem or FieldProblem
    spec : ProblemSpec or PythonSpec, optional
        What it was made of on the command line, for what only the file says: its seed is then used.
    seed : int
        Of the start and the directions that are tried.

    Returns
    -------
    Report
        With ``findings``, each ``ok``, ``note`` or ``bad``, and a ``verdict``.

    Raises
    ------
    InputError
        If there is no start.
    """
    seed = seed if spec is None else spec.sampler.seed
    own, field = plain(problem), on_mesh(problem)
    with single_threaded_blas(), ThreadPoolExecutor() as beside:  # to compile all at once
        lifted = target_of(own, _KERNEL)  # whose programs a run shares
        position = jax.ShapeDtypeStruct((lifted.dimension,), float)
        shapes = _sight.shapes(lifted, position, position)
        beside.submit(_trial.prepare, lifted, shapes.point, 0, 1.0)
        beside.submit(_sight.prepare, lifted, position, position)
        prior = beside.submit(_prior, field)
        position, of_start = _start_of(
            _KERNEL, lifted, own, seed, lambda _, *arguments: _evaluate(*arguments)
        )
        point, rng = _evaluate(lifted, position), np.random.default_rng(seed)
        findings = []
        if field is not None:
            findings.append(_mesh(field.mesh))
            if isinstance(spec, ProblemSpec) and spec.electrodes is None:
                findings.append(_groups(spec, field))
            if field.sensors is not None:
                if field.sensors.electrodes is not None:
                    findings.append(_electrodes(field))
                findings.append(_sensors(field, spec))
        findings += of_start
        findings += _derivatives(lifted, point, rng)
        findings += prior.result()
        findings.append(_step(lifted, point, seed))
        findings += _method(own)
    return Report(findings, "" if isinstance(spec, ProblemSpec) else f"{own}")


def find_objections(problem: AnyProblem, spec: ProblemSpec | PythonSpec) -> list[str]:
    """What makes a problem not ready to run; what the chains run is compiled at the same time."""
    settings, kernel, own = spec.sampler, spec.sampler.kernel(), plain(problem)
    with single_threaded_blas():
        target = target_of(own, kernel)
        beside = ThreadPoolExecutor()
        beside.submit(compile_chain, target, Plan(kernel, settings.warmup, 1), target.dimension)
        of_prior = beside.submit(_prior, on_mesh(problem))
        beside.shutdown(wait=False)
        _, findings = _start_of(kernel, target, own, settings.seed)
    findings += of_prior.result()
    return [str(finding) for finding in findings if finding.level == "bad"]


def _start_of(
    kernel: Kernel,
    target: Any,
    problem: InverseProblem | ManifoldProblem,
    seed: int,
    evaluate_fn: Callable = evaluate_state,
) -> tuple[np.ndarray, list[Finding]]:
    """Where the first chain would start, (target.dimension,), and what was found on the way there.

    An InputError if there is no start.
    """
    if isinstance(problem, ManifoldProblem):
        position = random_starts(kernel, target, seed, 1)[0]
        return position, [_constraint(target, position)]
    start = find_start(kernel, target, seed, 0, evaluate_fn)
    problem = target.problem  # which may have other numbers in the place of many readings
    return start.position, [_sensitivity(problem, start), _fit(problem, start)]


def _constraint(target: ManifoldProblem, position: np.ndarray) -> Finding:
    """Whether a start is on the manifold: its constraints are independent there."""
    distance = distance_from_manifold(target, position)
    detail = f"{target.num_constraints} for {target.num_unknowns} unknowns, independent at a "
    detail += f"random start, which was moved to within {distance:.1e} of the manifold"
    if distance <= CLOSE_ENOUGH:
        return Finding("ok", "constraint", detail)
    detail += ": it may vanish nowhere, or far from there; give manifold_problem a start"
    return Finding("bad", "constraint", detail)


def _sensitivity(problem: InverseProblem, start: Start) -> Finding:
    """How far the readings move with the unknowns, in standard deviations of their noise."""
    if problem.noise.is_exact:
        return Finding("ok", "sensitivity", "readings are exact: there is no noise to compare with")
    moves, level = start.sensitivity, "ok"
    blind = np.flatnonzero(moves < BLIND)
    detail = f"readings move by {moves.min():.3g} to {moves.max():.3g} sd of the noise with the "
    detail += "unknowns, as far as their prior allows"
    if blind.size == moves.size:
        level = "bad"
        detail += ": nothing next to the noise; are source, boundary values and units right?"
    elif blind.size:
        first = name_of_reading(problem, blind[0])
        level = "note"
        detail += f"; {blind.size} readings say nothing about them, the first is {first}"
    return Finding(level, "sensitivity", detail)


def _fit(problem: InverseProblem, start: Start) -> Finding:
    """Whether some unknowns reproduce the readings: the start was fitted to them."""
    if problem.noise.is_exact:
        return Finding("ok", "fit", "the start reproduces the readings exactly")
    if problem.noise.num_parameters:
        return Finding("ok", "fit", "the noise scale, being unknown, grows with what does not fit")
    worst = int(np.argmax(start.misfit))
    most = start.misfit[worst]
    detail = f"unknowns fitted to the readings miss them by up to {most:.3g} sd of the noise"
    if most <= MAX_MISFIT:
        return Finding("ok", "fit", detail)
    detail += f", at {name_of_reading(problem, worst)}, which contradicts another or the model (a "
    detail += "boundary value where it stands, a unit, too small a noise)"
    return Finding("bad", "fit", detail)


def _method(problem: InverseProblem | ManifoldProblem) -> list[Finding]:
    """Whether a sampler that does not lift is worth a trial: see the page on samplers.

    It is where few unknowns have many readings and draws of the Laplace approximation, weighed by
    the posterior, count for much: the posterior is nearly normal then.
    """
    if isinstance(problem, ManifoldProblem) or problem.own_lifted() is not None:
        return []
    size = problem.num_unknowns
    if size > min(MANY_UNKNOWNS, problem.num_observations):
        return []
    try:
        target = laplace_whitened(problem)
    except InputError:  # the noise may be too large or too small for one
        return []
    draws = np.random.default_rng(0).standard_normal((NUM_WEIGHED, size))
    logs = np.asarray(_log_weights(target, draws))
    weights = np.exp(logs - np.max(logs, initial=-np.inf, where=np.isfinite(logs)))
    weights = np.where(np.isfinite(weights), weights, 0.0)
    share = weights.sum() ** 2 / (NUM_WEIGHED * np.square(weights).sum())
    if not share >= NEARLY_NORMAL:
        return []
    detail = f"{problem.num_observations} readings of {size} unknowns, and a nearly normal "
    detail += f"posterior ({100 * share:.0f} % of the weights of its normal approximation): nuts "
    detail += 'with metric = "dense" may take less time than chmc; invlift compare says which does'
    return [Finding("note", "method", detail)]


@partial(Program, effort="none")
def _log_weights(target, draws):
    return jax.lax.map(target.loglikelihood, draws)


def _prior(field: FieldProblem | None) -> list[Finding]:
    """Whether a field's prior is the one asked for, on its mesh; nothing without a field."""
    if field is None:
        return []
    std = field.prior.pointwise_std()  # 0 where the field is known
    parts = getattr(field.prior, "nominal", None) or [None]
    return [each for part in parts for each in _of_part(field.mesh, std, part)]


def _of_part(mesh: Mesh, std: np.ndarray, part: Nominal | None) -> list[Finding]:
    """The same of a layer, or of the whole body."""
    std = std[part.cells] if part is not None and part.layer else std
    if not std.any():  # it is all known
        return []
    low, middle, high = np.quantile(std[std > 0.0], [0.0, 0.5, 1.0])
    level, detail = "ok", "realised standard deviation of the log-conductivity "
    detail += f"{low:.3g} to {high:.3g}, median {middle:.3g}"
    if part is None:
        return [Finding(level, "prior", detail)]
    if part.std is not None:
        detail += f" (asked for {part.std:.3g})"
        if high > 1.3 * part.std and part.boundary == "neumann":
            level = "note"
            detail += "; the natural boundary inflates it near the edge: see [prior] boundary = "
            detail += '"robin"'
        elif middle < LOW_STD * part.std:
            level = "bad" if middle < LEAST_STD * part.std else "note"
            detail += "; far less than asked for: is the range in the mesh's unit of length?"
    of_layer = f" of {part.layer}" if part.layer else ""
    found = [Finding(level, f"prior{of_layer}", detail)]
    return [*found, _resolution(mesh, part, f"resolution{of_layer}")]


def _resolution(mesh: Mesh, part: Nominal, name: str) -> Finding:
    """Whether the mesh resolves the range of the prior."""
    corners, length = mesh.points[mesh.cells[part.cells]], part.correlation_range
    edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    per_range = length / float(np.median(edges))
    level, detail = "ok", f"{per_range:.2g} mesh widths across the prior's range of {length:.3g}"
    if per_range < LEAST_PER_RANGE:
        level = "bad"
        detail += ": the field has no range; is it in the mesh's unit of length?"
    elif per_range < NODES_PER_RANGE:
        level = "note"
        detail += f"; below {NODES_PER_RANGE:g} the mesh decides the field: refine it"
    return Finding(level, name, detail)


def taylor_slope(value_fn, linear_fn, steps=TAYLOR_STEPS) -> tuple[float, float]:
    """Order at which the remainder of a linearisation vanishes.

    `value_fn` and `linear_fn` give f(x + h v), an array, and f(x) + h Df(x) v for h, which
    decreases along the steps. Returns the median slope of log remainder over log h where the
    remainder is above round-off: 2 for a right derivative, 1 for a wrong one (with second
    derivatives 3 and 2), NaN where everything is round-off; and the largest remainder relative to
    the size of f.
    """
    values = [np.asarray(value_fn(step)) for step in steps]
    remainders = np.array(
        [np.linalg.norm(v - np.asarray(linear_fn(h))) for v, h in zip(values, steps, strict=True)]
    )
    size = max(*map(np.linalg.norm, values), 1e-300)  # where f is 0 at x, of what it is made of
    usable = remainders > 1e-11 * size
    slopes = np.diff(np.log(remainders[usable])) / np.diff(np.log(steps[usable]))
    slope = float(np.median(slopes)) if slopes.size else float("nan")
    return slope, float(remainders.max() / size)


def _mesh(mesh: Mesh) -> Finding:
    quality = mesh_quality(mesh)
    poor = np.flatnonzero(quality < POOR_QUALITY)
    kind = "triangles" if mesh.dim == 2 else "tetrahedra"
    extent = " x ".join(f"{size:g}" for size in np.ptp(mesh.points, axis=0))
    detail = (
        f"{mesh.num_nodes} nodes, {mesh.num_cells} {kind}, extent {extent}; quality (1 is best) "
        f"worst {quality.min():.2f}, median {np.median(quality):.2f}"
    )
    if poor.size:
        detail += f"; {poor.size} slivers below {POOR_QUALITY}, the first is cell {poor[0]}"
    num_parts = int(mesh.components.max()) + 1
    if num_parts > 1:
        detail += f"; {num_parts} parts that share no node: nothing flows between them (merge the "
        detail += "nodes where they touch if it should)"
    return Finding("note" if poor.size or num_parts > 1 else "ok", "mesh", detail)


def _groups(spec: ProblemSpec, field: FieldProblem) -> Finding:
    mesh = field.mesh
    used = {
        group
        for pde in spec.experiments.values()
        for group in (*pde.dirichlet, *pde.neumann, *pde.robin)
    }
    held = {tuple(facet) for group in used for facet in np.sort(mesh.facets(group), axis=1)}
    outer = {tuple(facet) for facet in np.sort(mesh.boundary_facets, axis=1)} - held
    detail = f"boundary conditions on {', '.join(sorted(used))}"
    if spec.experiment:
        detail += f", of experiments {', '.join(spec.experiment)}"
    if outer:
        share = len(outer) / len(mesh.boundary_facets)
        detail += f"; {100 * share:.0f} % of the boundary's facets are insulated"
    if mesh.subdomains:
        detail += f"; subdomains: {', '.join(sorted(mesh.subdomains))}"
    return Finding("ok", "groups", detail)


@partial(Program, effort="none")
def _readings(model, coefficients):
    return model(coefficients)


def _electrodes(field: FieldProblem) -> Finding:
    sensors, names = field.sensors, field.sensors.electrode_groups
    num = len(names or sensors.positions)
    numbers = electrode_numbers(sensors, names or range(1, num + 1), are_points=not names)
    pairs = len(np.unique(np.sort(numbers[:, :2], axis=1), axis=0))
    level, of_them = _contacts(field.mesh, names) if names else _points(field, numbers)
    detail = f"{num} {of_them}; {pairs} pairs of them drive a current"
    if (num := reduced(field.problem).num_observations) < len(sensors.values):
        detail += f"; the readings are combinations of {num} numbers, which stand for them"
    return Finding(level, "electrodes", detail)


def _contacts(mesh: Mesh, names: Sequence[str]) -> tuple[str, str]:
    facets = [mesh.facets(name) for name in names]
    counts = [len(each) for each in facets]
    sizes = [facet_sizes(mesh.points[each]).sum() for each in facets]
    what = "wide" if mesh.dim == 2 else "in area"
    detail = f"electrodes of {min(counts)} to {max(counts)} boundary facets, "
    return "ok", detail + f"{min(sizes):.3g} to {max(sizes):.3g} {what}"


def _points(field: FieldProblem, numbers: np.ndarray) -> tuple[str, str]:
    """How close they are, and what the mesh makes of uniform ground with a flat surface."""
    positions, model = field.sensors.positions, field.problem.model
    detail = f"point electrodes, the closest two {pdist(positions).min():.3g} apart"
    if np.ptp(positions[:, -1]) > 0.0 or isinstance(field.prior, PartlyKnownPrior):
        return "ok", detail
    size = field.mesh.num_nodes if field.is_nodal else field.mesh.num_cells
    factors = geometric_factors(positions, numbers)
    found = np.asarray(_readings(model, np.zeros(size)))
    errors = np.abs(found * factors - 1.0)[np.isfinite(factors)]
    detail += f", of uniform ground readings are up to {100 * errors.max():.2g} % off (median "
    detail += f"{100 * np.median(errors):.2g} %)"
    if errors.max() < FAR_OFF:
        return "ok", detail
    return "note", f"{detail}: refine the mesh near electrodes, or take it further out"


def _sensors(field: FieldProblem, spec: ProblemSpec | PythonSpec | None) -> Finding:
    sensors = field.sensors
    notes, is_file = [], isinstance(spec, ProblemSpec)
    columns = sensors.points, sensors.minus, sensors.electrodes, sensors.experiments
    places = np.column_stack([each.astype(str) for each in columns if each is not None])
    if num_repeats := len(sensors.values) - len(np.unique(places, axis=0)):
        what = "the place" if sensors.electrodes is None else "the electrodes"
        notes.append(f"{num_repeats} rows repeat {what} of another")
    if sensors.sigma is not None and is_file and spec.noise.sigma != "column":
        notes.append("the table's column sigma is not used, as [noise] sigma says otherwise")
    if sensors.experiments is not None and is_file and not spec.experiment:
        notes.append("the table's column experiment is not used, as there is no [experiment.NAME]")
    if sensors.outside:
        notes.append(sensors.outside)
    kinds = [] if sensors.kinds is None else sorted(set(sensors.kinds.tolist()))
    scale = field.problem.noise.scale
    if len(kinds) > 1 and scale.num_parameters and getattr(scale, "groups", None) is None:
        notes.append(f"readings of kinds {', '.join(kinds)} share one unknown noise scale")
    level = "note" if notes else "ok"
    size = f"{len(sensors.values)} in use"
    if len(kinds) > 1:
        counts = [f"{np.count_nonzero(sensors.kinds == kind)} {kind}" for kind in kinds]
        size += f" ({', '.join(counts)})"
    return Finding(level, "sensors", "; ".join([size, *notes]))


def _derivatives(lifted, point, rng) -> list[Finding]:
    """Taylor slopes along a random direction, and the adjoint dot product."""
    position = np.asarray(point.position)
    heading, density = 0.1 * rng.standard_normal(position.shape), "log det G"
    if isinstance(lifted, ManifoldProblem):  # of any units
        heading, density = heading * np.maximum(1.0, np.abs(position)), "the log density"
    else:  # where whitened unknowns are tall, a unit direction would be a leap
        heading /= max(1.0, np.max(np.abs(position[: lifted.problem.num_unknowns])))
    _, *found = _sight(lifted, position, heading)
    value, slope, first, second, scale = map(np.asarray, found)
    heading = scale * heading
    there = {h: _sight(lifted, position + h * heading, 0.0 * heading) for h in TAYLOR_STEPS}
    name, along = f"derivative of the {lifted.looked_at}", point.logdensity_grad
    second_order = 0.5 * np.asarray(second)
    findings = [
        _slope_finding(name, lambda h: there[h].value, lambda h: value + h * slope),
        _slope_finding(
            f"second {name}", lambda h: there[h].value,
            lambda h: value + h * first + h**2 * second_order, order=3,
        ),
        _slope_finding(
            f"gradient of {density}", lambda h: there[h].point.logdensity,
            lambda h: point.logdensity + h * (np.asarray(along) @ heading),
        ),
    ]  # fmt: skip
    probe = rng.standard_normal(value.shape)
    left, right = first @ probe, slope @ probe
    error = float(abs(left - right) / max(abs(left), abs(right), 1e-300))
    level = "ok" if error < 1e-9 else "bad"
    findings.append(Finding(level, "adjoint", f"<J v, w> and <v, J^T w> agree to {error:.1e}"))
    return findings


def _slope_finding(name: str, value_fn, linear_fn, order: int = 2) -> Finding:
    slope, remainder = taylor_slope(value_fn, linear_fn)
    if not np.isfinite(remainder):
        detail = "not finite: std, source or values too large, or readings out of the model's reach"
        return Finding("bad", name, detail)
    if np.isnan(slope):
        shape = {2: "linear", 3: "quadratic"}[order]
        return Finding("ok", name, f"{shape} to round-off (remainder {remainder:.1e})")
    level, verdict = ("ok", "right") if slope > order - 0.2 else ("bad", "wrong")
    detail = f"{verdict}: the Taylor remainder shrinks with order {slope:.2f} ({order} expected)"
    return Finding(level, name, detail)


@partial(Program, effort="none")
def _trial(lifted, point, seed, size):
    """A step with a random momentum, and the one back: failures, errors, factorisations."""
    momentum = sample_momentum(lifted, jax.random.key(seed), point)

    def turn_and_move(state, _):
        state = state._replace(momentum=-state.momentum)
        state = constrained_step(_KERNEL.integrator, lifted, state, size)
        violation = jnp.max(jnp.abs(state.point.constraint))
        return state, (state.num_failures, state.work[0], violation)

    # One step in a loop: the program holds it once.
    end, (failures, evaluations, violations) = jax.lax.scan(
        turn_and_move, build_state(point, momentum), length=2
    )
    error = jnp.max(jnp.abs(end.position - point.position))
    return failures, error, violations[0], evaluations[0]


def _step(lifted, point, seed: int) -> Finding:
    """One step forwards and back."""
    size = TRIAL_STEP
    trial = _trial(lifted, point, seed, size)
    while int(trial[0][0]) and size > 1e-3:
        size *= 0.5
        trial = _trial(lifted, point, seed, size)
    (has_failed, num_failures), *numbers = trial
    error, violation, num_factorisations = map(float, numbers)
    if has_failed:
        detail = f"no step down to {size:.1e} could be projected back onto the manifold"
        return Finding("bad", "step", detail)
    detail = f"a step of {size:.2g} and back returns to within {error:.1e}; constraint met to "
    detail += f"{violation:.1e}; {num_factorisations:.0f} factorisations"
    return Finding("ok" if not num_failures and error < 1e-6 else "bad", "step", detail)
