"""One-line faults in the engine, each of which the tests must find.

    python tests/benchmarks/planted_faults.py [--only WORDS] [--marker slow] [--wide]

A copy of the checkout gets one fault after another, and the tests of its room run until one fails.
A line says of each fault which test found it, and a table in Markdown says it of all.  At the end
the tests that found something run once without a fault, where they must pass.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

LIMIT = 240.0  # seconds for the tests of one fault
NOT_COPIED = ".venv", ".git", ".ruff_cache", ".pytest_cache", "__pycache__", "site"


class Fault(NamedTuple):
    """What is wrong once `line`, which `file` of the package has once, has become `planted`.

    The paths in `tests` are relative to the folder of tests, the nearest first.
    """

    room: str
    what: str
    file: str
    line: str
    planted: str
    tests: str


# fmt: off
FAULTS = (
    Fault("fem", "conduction in space loses its third direction", "fem/equations/forms.py",
          'jdq...,q...->ijq...", element.gradient,',
          'jdq...,q...->ijq...", element.gradient[:, :2],',
          "contracts/test_field_contract.py fem/test_equation.py"),
    Fault("fem", "held values of the last element are forgotten", "fem/equations/form_assembly.py",
          'np.flatnonzero(held[part["dofs"]].any(axis=0))',
          'np.flatnonzero(held[part["dofs"]].any(axis=0))[:-1]', "fem/test_poisson.py"),
    Fault("fem", "sign within the pull-back of the equation", "fem/equations/terms.py",
          "by_matrices)) + _total(", "by_matrices)) - _total(", "contracts/test_model_contract.py"),
    Fault("fem", "the curvature of weights is their slope", "fem/equations/terms.py",
          "curvature = second_directional(self.weight, (points,), (ones,))",
          "curvature = jax.jvp(self.weight, (points,), (ones,))[1]",
          "contracts/test_model_contract.py"),
    Fault("fem", "weights of the loads of combinations", "fem/equations/combined_equation.py",
          "shares.at[equation.columns, equation.loads]", "shares.at[equation.columns, 0]",
          "contracts/test_model_contract.py"),
    Fault("fem", "only the last Robin group exchanges", "fem/equations/field_equation.py",
          "constant = constant + facet_mass(", "constant = facet_mass(",
          "fem/test_poisson.py"),
    Fault("fem", "sign of the inflow outside a Robin boundary", "fem/equations/field_equation.py",
          "load[outside[group], k] -= inflow.sum()", "load[outside[group], k] += inflow.sum()",
          "fem/test_unknown_conditions.py fem/test_flux.py fem/test_readings.py"),
    Fault("fem", "sources of overlapping subdomains do not add up", "fem/equations/conditions.py",
          'per_cell[mesh.cells_of(name, "source")] +=', 'per_cell[mesh.cells_of(name, "source")] =',
          "fem/test_poisson.py fem/test_unknown_conditions.py"),
    Fault("fem", "a point source displaces the other loads", "fem/equations/conditions.py",
          "load[nodes] += weights", "load[nodes] = weights",
          "fem/test_experiments.py fem/test_poisson.py fem/test_unknown_conditions.py"),
    Fault("fem", "sign of fluxes by unknown conditions", "fem/equations/system.py",
          "rhs, reactions = load, -self.inputs", "rhs, reactions = load, self.inputs",
          "contracts/test_model_contract.py fem/test_equation.py"),
    Fault("fem", "contacts are integrated at one point", "fem/equations/forms.py",
          "concatenate([element.value, -xp",
          "concatenate([element.value.mean(1, keepdims=True) + 0.0 * element.value, -xp",
          "contracts/test_field_contract.py"),
    Fault("fem", "signs of one electrode of a pair", "fem/electrodes/quadrupoles.py",
          "read[:, columns] * driven[:, rows])", "-read[:, columns] * driven[:, rows])",
          "fem/test_voltages.py fem/test_patterns.py"),
    Fault("fem", "a boundary term without its wave number", "fem/electrodes/point_electrodes.py",
          "decay = wave[:, None, None] * kve", "decay = kve", "fem/test_point_electrodes.py"),
    Fault("fem", "a microvolt is a millivolt",
          "tables/voltages.py", '"uv": 1e-6', '"uv": 1e-3',
          "fem/test_voltages.py app/test_electrode_tables.py"),
    Fault("fem", "shares of a triangle in tetrahedra of layers", "fem/fields/layered.py",
          "1.0 / self.corners.shape[1])", "1.0 / 3.0)", "contracts/test_prior_laws.py"),
    Fault("fem", "corners of triangles in readings of the field",
          "fem/readings/kinds.py",
          "places.cells[:, None] * (mesh.dim + 1)", "places.cells[:, None] * 3",
          "contracts/test_field_contract.py"),
    Fault("fem", "cells of triangles in readings of the field", "fem/equations/field_equation.py",
          "cells = read.places // (body.mesh.dim + 1)", "cells = read.places // 3",
          "contracts/test_field_contract.py"),
    Fault("fem", "cells of tetrahedra are integrated at one point",
          "fem/equations/discretisation.py",
          "element, intorder=2)", "element, intorder=1)", "contracts/test_field_contract.py"),
    Fault("fem", "fall of a potential in space as in the plane",
          "fem/electrodes/point_electrodes.py",
          "outside.weight * cosine / radius)", "outside.weight * cosine)",
          "contracts/test_field_contract.py"),
    Fault("fem", "the ground goes on as if nothing were known",
          "fem/electrodes/point_electrodes.py",
          "location=location, known=cells[sides.tind])", "location=location)",
          "contracts/test_field_contract.py"),
    Fault("fem", "a coefficient on facets is its mean", "fem/equations/discretisation.py",
          "return w.weight * u * v", "return np.mean(w.weight) * u * v",
          "contracts/test_field_contract.py"),
    Fault("fem", "ambient values by a coefficient that does not vary",
          "fem/equations/conditions.py",
          "return facet_mass(basis, mesh, group, coefficient) @ ambient",
          "return facet_load(basis, mesh, group, np.mean(coefficient) * ambient)",
          "contracts/test_field_contract.py"),
    Fault("fem", "deviations of layers in space as in the plane", "fem/fields/matern.py",
          ".set(1.0 / num, mode", ".set(1.0 / 3.0, mode", "contracts/test_prior_laws.py"),
    Fault("fem", "a layer's mean is that of its first corner", "fem/fields/layered.py",
          "return self._times(self.pattern.product, directions)",
          "return directions[self.corners[:, 0]]", "contracts/test_prior_laws.py"),
    Fault("fem", "deviation of inclusions of unknown value", "fem/fields/inclusions.py",
          "moments[name][1] ** 2 * each**2", "moments[name][1] ** 2 * each",
          "fem/test_inclusions.py"),
    Fault("fem", "odd orders of Matern fields scaled twice", "fem/fields/matern.py",
          "columns = self.half_solve_transpose(columns)",
          "columns = self.half_solve_transpose(self.noise_scale[:, None] * columns)",
          "fem/test_matern.py"),
    Fault("fem", "half dropped in variances of order 3", "fem/fields/matern.py",
          "return 0.5 * second_directional(", "return second_directional(", "fem/test_matern.py"),
    Fault("fem", "factor 2 in derivatives by the range", "fem/fields/hierarchical_tangent.py",
          "(x[2] + 2.0 * nu * x[1] + nu**2 * x[0])", "(x[2] + nu * x[1] + nu**2 * x[0])",
          "contracts/test_prior_contract.py fem/test_hierarchical_matern.py"),
    Fault("fem", "factor 2 in curvatures by the std", "fem/fields/hierarchical_tangent.py",
          "(2.0 * inside + by_scale[0] * self.field)", "(inside + by_scale[0] * self.field)",
          "contracts/test_prior_contract.py fem/test_hierarchical_matern.py"),
    Fault("fem", "a square left out of pointwise std", "fem/fields/hierarchical_matern.py",
          "exp(2.0 * log_at_zero(", "exp(log_at_zero(", "fem/test_hierarchical_matern.py"),
    Fault("fem", "weights of a disc in a ball", "fem/readings/average.py",
          "radii ** (dim - 1)", "radii", "fem/test_readings.py"),
    Fault("fem", "index of what a difference takes away", "fem/readings/kinds.py",
          "np.hstack([first.weights, -second.weights])",
          "np.hstack([first.weights, -np.roll(second.weights, 1, axis=1)])",
          "fem/test_readings.py"),
    Fault("fem", "readings on a finer mesh by quadratic functions", "fem/readings/base.py",
          "first * (3.0 * first - 1.0) / 2.0, 3.0 * first * second",
          "first * (2.0 * first - 1.0), 4.0 * first * second", "fem/test_finer_mesh.py"),
    Fault("fem", "extrapolation of an error of first order", "fem/mesh/finer_mesh.py",
          "return (4.0 * fine - coarse) / 3.0", "return 2.0 * fine - coarse",
          "fem/test_finer_mesh.py contracts/test_model_contract.py"),
    Fault("fem", "weights of the two meshes in a gradient exchanged", "fem/mesh/finer_mesh.py",
          "return 4.0 / 3.0 * weighed, -1.0 / 3.0 * weighed",
          "return -1.0 / 3.0 * weighed, 4.0 / 3.0 * weighed", "contracts/test_model_contract.py"),
    Fault("fem", "the coarser of two meshes with readings of the finer", "fem/mesh/finer_mesh.py",
          "self._on(before.as_given())", "self._on(before)", "fem/test_finer_mesh.py"),
    Fault("fem", "sqrt of the Gram determinant of facets left out", "fem/mesh/functionals.py",
          "return np.sqrt(gram) /", "return gram /", "fem/test_mesh.py fem/test_readings.py"),
    Fault("fem", "flux of a group without that of its edges", "fem/equations/flux.py",
          "is_of_group - shares[exterior].mean(axis=1)", "is_of_group", "fem/test_flux.py"),
    Fault("fem", "experiments of other exchange taken together", "fem/equations/experiments.py",
          "(each.held.tobytes(), *coefficients)", "(each.held.tobytes(),)",
          "fem/test_experiments.py fem/test_unknown_conditions.py"),
    Fault("fem", "half of the log-determinant", "fem/linalg/multifrontal.py",
          "log_determinant -= 2.0 * jnp.sum", "log_determinant -= jnp.sum",
          "fem/test_linalg.py"),
    Fault("fem", "half of a symmetric block of the inverse", "fem/linalg/multifrontal.py",
          "-((lower + jnp.tril(lower, -1).mT) @ front.below)", "-(lower @ front.below)",
          "fem/test_linalg.py"),
    Fault("fem", "pivots of a block of columns", "fem/linalg/multifrontal.py",
          "jnp.where(is_pivot.T, ones, pivot_rows)", "pivot_rows", "fem/test_linalg.py"),
    Fault("fem", "derivative of the inverse factor", "fem/linalg/multifrontal.py",
          "0.5 * (jnp.tril(scaled) + jnp.tril(scaled, -1))", "0.5 * jnp.tril(scaled)",
          "fem/test_linalg.py"),
    Fault("fem", "reach of the largest cells in a search", "fem/mesh/geometry.py",
          "radii[members].max()))", "radii[members].min()))", "fem/test_sensors.py"),
    Fault("fem", "closest point of a triangle in space", "fem/mesh/geometry.py",
          "np.cross(u, offset)", "np.cross(offset, u)", "fem/test_mesh.py fem/test_sensors.py"),
    Fault("inverse", "slope of the scale above its knee", "noise/scales.py",
          " + jax.nn.log_sigmoid(argument)", "",
          "noise/test_noise_scales.py contracts/test_noise_contract.py"),
    Fault("inverse", "readings of all groups have the first scale", "noise/scales.py",
          "every[k] = parameter[..., column]", "every[k] = parameter[..., 0]",
          "noise/test_noise_scales.py noise/test_noise_given_draws.py"),
    Fault("inverse", "half dropped in the half-normal density",
          "unknowns/distributions/families.py",
          "- 0.5 * jnp.exp(2.0 * log_value)", "- jnp.exp(2.0 * log_value)",
          "contracts/test_distribution_contract.py"),
    Fault("inverse", "sign of the volume of relative noise", "noise/base.py",
          "return -jnp.sum(self._noise(zeta, eta)) if", "return jnp.sum(self._noise(zeta, eta)) if",
          "contracts/test_noise_contract.py noise/test_noise_families.py"),
    Fault("inverse", "constant of Student-t by its degrees", "unknowns/distributions/student_t.py",
          "0.5 * np.log(2.0) - 0.5 * jnp.log(nu) +", "0.5 * np.log(2.0) +",
          "noise/test_noise_families.py"),
    Fault("inverse", "a gap in the middle of Laplace noise", "noise/families.py",
          "value = -log_ndtr(-size) - np.log(2.0)", "value = -log_ndtr(-size)",
          "noise/test_noise_families.py"),
    Fault("inverse", "mean of Milstein's double integral", "models/sde_schemes.py",
          "0.5 * (bend - length * mean)", "0.5 * bend", "problems/test_diffusion_problem.py"),
    Fault("inverse", "unknowns in all but the last step", "lift/targets/diffusion.py",
          "(carry @ by_state, drag + carry @ by_values)", "(carry @ by_state, carry @ by_values)",
          "contracts/test_target_contract.py problems/test_diffusion_problem.py"),
    Fault("inverse", "blocks go on from one another", "problems/time/diffusion_blocks.py",
          "return carry.at[self.blocks.begins(carry.shape[0])].set(0.0)", "return carry",
          "problems/test_diffusion_blocks.py"),
    Fault("inverse", "volume of what is recovered of readings", "lift/targets/state_space.py",
          "0.5 * (jnp.sum(stretch) - gram.log_determinant())", "-0.5 * gram.log_determinant()",
          "problems/test_state_space.py"),
    Fault("inverse", "log-determinant of the core", "lift/jacobians/bordered.py",
          "return self.core.log_determinant() + self.capacitance", "return self.capacitance",
          "contracts/test_jacobian_contract.py"),
    Fault("inverse", "index of a block above", "lift/jacobians/block_bidiagonal.py",
          "_products(self.here, _after(right.before))", "_products(self.here, right.before)",
          "contracts/test_jacobian_contract.py"),
    Fault("inverse", "a transposed product of blocks", "lift/jacobians/block_diagonal.py",
          '"brc,bsc->brs"', '"brc,bsc->bsr"', "contracts/test_jacobian_contract.py"),
    Fault("inverse", "sides of groups interchanged", "lift/jacobians/grouped.py",
          "right.columns[:, :, None] * (self.columns / core[:, None])[:, None, :]",
          "self.columns[:, :, None] * (right.columns / core[:, None])[:, None, :]",
          "contracts/test_jacobian_contract.py"),
    Fault("inverse", "own noise in the filter's covariance", "lift/jacobians/markov.py",
          " + (gain * noise) @ gain_right.T", "", "contracts/test_target_contract.py"),
    Fault("inverse", "one of two triangles in a determinant", "lift/jacobians/triangular.py",
          "jnp.diagonal(self.left) * jnp.diagonal(self.right)", "jnp.diagonal(self.left) ** 2",
          "contracts/test_jacobian_contract.py"),
    Fault("inverse", "half of a dense log-determinant", "lift/jacobians/dense.py",
          "2.0 * jnp.sum(jnp.log(jnp.diagonal(self.lower)))",
          "jnp.sum(jnp.log(jnp.diagonal(self.lower)))", "contracts/test_jacobian_contract.py"),
    Fault("inverse", "scales of NumPyro count once too often", "problems/numpyro/numpyro_sites.py",
          '(msg["scale"] - 1.0) *', 'msg["scale"] *', "problems/test_numpyro_problem.py"),
    Fault("inverse", "log-determinant of normal readings", "unknowns/distributions/scores.py",
          "-jnp.log(jnp.diagonal(given.scale_tril, axis1=-2, axis2=-1))",
          "0.0 * jnp.diagonal(given.scale_tril, axis1=-2, axis2=-1)",
          "contracts/test_whitening_contract.py"),
    Fault("inverse", "what is lifted counts twice", "problems/choice/partly_lifted.py",
          "return every - self.noise", "return every - 0.0 * self.noise",
          "contracts/test_partly_lifted.py"),
    Fault("inverse", "precisions of the Laplace approximation", "problems/laplace_approximation.py",
          "1.0 + values**2])", "1.0 + values])", "problems/test_laplace_approximation.py"),
    Fault("samplers", "impulse of a rotation", "samplers/constrained/splittings.py",
          "rotate, jnp.sin, 1)", "rotate, lambda time: time, 1)",
          "samplers/test_constrained_step.py samplers/test_integrators.py"),
    Fault("samplers", "steps need not return", "samplers/constrained/step.py",
          "return retracted.is_expected, point", "return retracted.is_converged, point",
          "samplers/test_constrained_step.py samplers/test_trajectories.py"),
    Fault("samplers", "an early check that is too easy", "samplers/constrained/retractions.py",
          "(error <= CERTAIN_ERROR) & (error", "(error <= CERTAIN_ERROR) | (error",
          "samplers/test_trajectories.py"),
    Fault("samplers", "share of fresh momentum", "samplers/kernels/chmc.py",
          "jnp.sqrt(1.0 - kept**2) *", "(1.0 - kept) *", "samplers/test_trajectories.py"),
    Fault("samplers", "acceptance of the wrong direction", "samplers/kernels/constrained.py",
          "energy(start) - energy(end)", "energy(end) - energy(start)",
          "samplers/test_trajectories.py samplers/test_integrators.py"),
    Fault("samplers", "Gram term in an own metric", "samplers/kernels/constrained_riemannian.py",
          "across - of_metric - _log_root(jacobian @ jacobian.T)", "across - of_metric",
          "samplers/test_constrained_riemannian.py"),
    Fault("samplers", "adaptation goes on while draws are taken", "samplers/chains/programs.py",
          "jnp.where(is_warmup, new, old)", "new",
          "samplers/test_chains.py samplers/test_run_chains.py samplers/test_carried_state.py"),
    Fault("samplers", "each block has the same random numbers", "samplers/chains/programs.py",
          "jax.random.fold_in(rng_key, first + index)", "jax.random.fold_in(rng_key, index)",
          "samplers/test_chains.py samplers/test_carried_state.py samplers/test_run_chains.py"),
    Fault("samplers", "a resumed chain forgets its momentum", "samplers/chains/saving.py",
          "iteration, seconds, carried)", "iteration, seconds)",
          "samplers/test_carried_state.py samplers/test_run_chains.py"),
    Fault("posterior", "deviations of chains that are merged", "moments.py",
          " + shift**2 * (self.count * other.count / count)", "",
          "posterior/test_posterior_statistics.py posterior/test_thinned_fields.py"),
    Fault("posterior", "factor 2 of autocorrelations", "posterior/statistics/diagnostics.py",
          "-1.0 + 2.0 * summed", "-1.0 + summed", "posterior/test_posterior_diagnostics.py"),
    Fault("posterior", "R-hat without that of the spread", "posterior/statistics/diagnostics.py",
          "np.fmax(_plain_r_hat(scores), _plain_r_hat(folded_scores))", "_plain_r_hat(scores)",
          "posterior/test_posterior_diagnostics.py"),
    Fault("posterior", "effective draws of one chain for all", "posterior/verdict.py",
          "MIN_ESS_PER_CHAIN * num_chains,", "MIN_ESS_PER_CHAIN,",
          "posterior/test_posterior_verdict.py"),
    Fault("posterior", "probabilities of readings not left out",
          "posterior/statistics/leave_one_out.py",
          "logsumexp(log_weights + log_ndtr(eta))", "logsumexp(log_ndtr(eta)) / eta.size",
          "posterior/test_leave_one_out.py"),
    Fault("programs", "a digest of arrays without their numbers", "programs/digest.py",
          "(*words, array.tobytes()), mask", "words, mask", "programs/test_digest.py"),
)
# fmt: on


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=Path, default=root, help="checkout that is copied")
    parser.add_argument("--only", default="", help="faults with all of these words")
    parser.add_argument("--marker", default="", help="of the tests, in place of the default ones")
    parser.add_argument("--wide", action="store_true", help="all tests of the folders")
    given = parser.parse_args()
    words = given.only.lower().split()
    chosen = [each for each in FAULTS if all(word in " ".join(each).lower() for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(given.root, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        for each in chosen:
            if (copy / "invlift" / each.file).read_text(encoding="utf-8").count(each.line) != 1:
                raise SystemExit(f"{each.file} does not have once: {each.line}")
        rows = [(each, *tried(copy, each, given.marker, given.wide)) for each in chosen]
        finders = sorted({by for _, by, _ in rows if "::" in by})
        failing = run(copy, finders, given.marker, None)[1] if finders else ""
    print("\n| room | fault | file | found by | seconds |\n|---|---|---|---|---|")
    for each, by, seconds in rows:
        print(f"| {each.room} | {each.what} | {each.file} | {by} | {seconds:.0f} |")
    num = sum(by.startswith("none") for _, by, _ in rows)
    print(f"\n{len(rows) - num} of {len(rows)} were found.")
    if failing:
        print(f"{failing} fails without a fault as well.")
    return int(num > 0 or bool(failing))


def tried(copy: Path, fault: Fault, marker: str, wide: bool) -> tuple[str, float]:
    """Which test finds a fault, "none" if none does, and the seconds that this took."""
    paths = [copy / "tests" / each for each in fault.tests.split()]
    existing = [each for each in paths if each.exists() and not wide]
    tests = existing or list(dict.fromkeys(each.parent for each in paths))
    file = copy / "invlift" / fault.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(fault.line, fault.planted), encoding="utf-8")
    began = time.perf_counter()
    try:
        is_stopped, by = run(copy, [str(each.relative_to(copy)) for each in tests], marker, LIMIT)
    finally:
        file.write_text(text, encoding="utf-8")
    seconds = time.perf_counter() - began
    by = by or ("none, stopped" if is_stopped else "none")
    print(f"{fault.room}, {fault.what}: found by {by} ({seconds:.0f} s)", flush=True)
    return by, seconds


def run(copy: Path, tests: list[str], marker: str, limit: float | None) -> tuple[bool, str]:
    """Whether these tests had to be stopped, and the first of them that failed."""
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", *(["-m", marker] if marker else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what the tests have started can be stopped with them
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return True, ""
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    if not failed and process.returncode not in (0, 5):  # 5: no test has the marker
        raise SystemExit(output)
    return False, failed[0] if failed else ""


if __name__ == "__main__":
    sys.exit(main())
