"""Pre-flight: is this problem well posed, are its derivatives right, how long will it take?"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from invlift.app import readiness
from invlift.app.build import FieldProblem
from invlift.app.problem_file import ProblemSpec
from invlift.app.problems import OwnProblem, PythonSpec, build
from invlift.app.readiness import Finding
from invlift.app.sampling import FIRST_GOAL, target_of
from invlift.app.sections import SamplerTable
from invlift.compilation import Program
from invlift.fem.mesh.mesh import Mesh, mesh_quality
from invlift.inverse.targets.given_manifold import ManifoldProblem
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.targets import Sight

#: Radius-ratio quality below which an element spoils the accuracy around it.
POOR_QUALITY = 0.1
#: Size of the step that is tried forwards and backwards.
TRIAL_STEP = 0.3
#: Steps a draw takes with quarter-period trajectories: 1.6 measured on the disc, up to 3 where
#: the posterior bends more.
STEPS_PER_DRAW = 2.0
#: How much faster a position is evaluated when a run has had it compiled at leisure: 2.3 to 5.7
#: times measured on seven problems.
SPEED_UP = 3.5
#: Time of a further factorisation of a step in units of the evaluation of a position: 0.3 to 0.5
#: measured on discs of 469 to 4,921 nodes with 10 to 300 sensors.
FACTORISATION_SHARE = 0.4
#: Difference steps of the Taylor tests.
TAYLOR_STEPS = 2.0 ** -np.arange(3, 10)


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


def check_problem(spec: ProblemSpec | PythonSpec) -> Report:
    """Look a problem over.

    Raises
    ------
    InputError
        If the problem cannot even be put together.
    """
    with single_threaded_blas():
        return _report(spec, build(spec))


def _report(spec: ProblemSpec | PythonSpec, field: FieldProblem | OwnProblem) -> Report:
    lifted = target_of(field.problem, _KERNEL)  # whose programs a run shares
    position = jax.ShapeDtypeStruct((lifted.dimension,), float)
    with ThreadPoolExecutor() as beside:  # to compile all at once
        shapes = _sight.shapes(lifted, position, position)
        beside.submit(_trial.prepare, lifted, shapes.point, 0, 1.0)
        beside.submit(_sight.prepare, lifted, position, position)
        prior = beside.submit(readiness.prior, spec, field)
        method = beside.submit(readiness.method, field.problem)
        seed = spec.sampler.seed
        position, of_start = readiness.start_of(
            _KERNEL, lifted, field.problem, seed, lambda _, *arguments: _evaluate(*arguments)
        )
        point, rng = _evaluate(lifted, position), np.random.default_rng(seed)
        findings = []
        if isinstance(spec, ProblemSpec):
            findings = [_mesh(field.mesh), _groups(spec, field.mesh), _sensors(spec, field)]
        findings += of_start
        findings += _derivatives(lifted, point, rng)
        findings += prior.result()
        findings += _step(spec, lifted, point)
        findings += method.result()
    return Report(findings, str(field.problem) if isinstance(field, OwnProblem) else "")


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


def _groups(spec: ProblemSpec, mesh: Mesh) -> Finding:
    used = {
        group
        for pde in spec.experiments.values()
        for group in (*pde.dirichlet, *pde.neumann, *pde.robin)
    }
    held = {tuple(facet) for group in used for facet in np.sort(mesh.facets(group), axis=1)}
    outer = {tuple(facet) for facet in np.sort(mesh.boundary_facets, axis=1)} - held
    idle = [
        group
        for group, facets in sorted(mesh.boundaries.items())
        if outer.issuperset(map(tuple, np.sort(facets, axis=1)))
    ]
    detail = f"boundary conditions on {', '.join(sorted(used))}"
    if spec.experiment:
        detail += f", of experiments {', '.join(spec.experiment)}"
    if outer:
        share = len(outer) / len(mesh.boundary_facets)
        detail += f"; {100 * share:.0f} % of the boundary's facets are insulated"
    if idle:
        detail += f", among them {', '.join(idle)}"
    if mesh.subdomains:
        detail += f"; subdomains: {', '.join(sorted(mesh.subdomains))}"
    return Finding("ok", "groups", detail)


def _sensors(spec: ProblemSpec, field: FieldProblem) -> Finding:
    sensors = field.sensors
    notes = []
    columns = sensors.points, sensors.minus, sensors.experiments
    places = np.column_stack([each.astype(str) for each in columns if each is not None])
    if num_repeats := len(sensors.values) - len(np.unique(places, axis=0)):
        notes.append(f"{num_repeats} rows repeat the place of another")
    if sensors.sigma is not None and spec.noise.sigma != "column":
        notes.append("the table's column sigma is not used, as [noise] sigma says otherwise")
    if sensors.experiments is not None and not spec.experiment:
        notes.append("the table's column experiment is not used, as there is no [experiment.NAME]")
    if field.outside:
        notes.append(field.outside)
    kinds = [] if sensors.kinds is None else sorted(set(sensors.kinds.tolist()))
    scale = field.problem.noise.scale
    if len(kinds) > 1 and scale.num_parameters and getattr(scale, "groups", None) is None:
        notes.append(f"readings of kinds {', '.join(kinds)} share one unknown noise scale")
    level = "note" if notes else "ok"
    if sensors.unused:
        notes.append(f"columns that are passed over: {', '.join(sensors.unused)}")
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


def _step(spec: ProblemSpec | PythonSpec, lifted, point) -> list[Finding]:
    """One step forwards and back, and the time a draw will take."""
    size = TRIAL_STEP
    trial = _trial(lifted, point, spec.sampler.seed, size)
    while int(trial[0][0]) and size > 1e-3:
        size *= 0.5
        trial = _trial(lifted, point, spec.sampler.seed, size)
    (has_failed, num_failures), *numbers = trial
    error, violation, num_factorisations = map(float, numbers)
    if has_failed:
        detail = f"no step down to {size:.1e} could be projected back onto the manifold"
        return [Finding("bad", "step", detail)]
    detail = f"a step of {size:.2g} and back returns to within {error:.1e}; constraint met to "
    detail += f"{violation:.1e}; {num_factorisations:.0f} factorisations"
    level = "ok" if not num_failures and error < 1e-6 else "bad"
    return [Finding(level, "step", detail), _time(spec.sampler, lifted, point, num_factorisations)]


def _time(settings: SamplerTable, lifted, point, num_factorisations: float) -> Finding:
    """The time that draws will take, of steps with so many factorisations."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(_evaluate(lifted, point.position))
        times.append(time.perf_counter() - began)
    evaluations = 1.0 + FACTORISATION_SHARE * (num_factorisations - 1.0)
    per_draw = STEPS_PER_DRAW * evaluations * float(np.median(times)) / SPEED_UP
    draws, more = settings.num_draws, ""
    if draws is None:
        draws, more = FIRST_GOAL, "; as many more as it takes for a good verdict"
    total = per_draw * settings.chains * (settings.warmup + draws)
    chains = f"{settings.chains} chains of {settings.warmup} + {draws} iterations"
    detail = f"about {_duration(per_draw)} per draw, {_duration(total)} of one core for {chains}, "
    detail += f"within a factor of two; compilation not included{more}"
    return Finding("ok", "time", detail)


def _duration(seconds: float) -> str:
    limits = (1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (np.inf, 3600.0, "h")
    size, unit = next((size, unit) for limit, size, unit in limits if seconds < limit)
    return f"{seconds / size:.3g} {unit}"
