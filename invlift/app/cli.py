"""The command line: run, check, simulate.

Exit status 0; 2 for bad input, with one line on standard error; 3 when the work was done but the
verdict on it is bad, or when it was stopped before it was done.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import logging
import os
import platform
import sys
import threading
from pathlib import Path

import jax
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from invlift.app.terminal import STREAMS, Output, interrupts_raise
from invlift.atomic import LOCK, only_writer, replace_on_success
from invlift.compilation import keep_compiled_programs
from invlift.errors import InputError
from invlift.precision import enable_x64
from invlift.samplers.kernels import KERNELS

BAD_INPUT, BAD_VERDICT = 2, 3


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit.

    Parameters
    ----------
    arguments : list of str, optional
        Instead of those of the process.
    """
    parsed = _parser().parse_args(arguments)
    enable_x64()
    # Of what cannot be helped: a folder for matplotlib's fonts that cannot be written to.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    out, err = Output(sys.stdout), Output(sys.stderr)
    logging.basicConfig(format="invlift: note: %(message)s", stream=err, force=True)
    keep_compiled_programs()
    try:
        status = parsed.command(parsed, Console(file=out), Console(file=err))
        out.flush()
    except InputError as error:
        status = _refused(err, error)
    except OSError as error:
        status = _refused(err, _from_system(error))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        status = _refused(err, _OUT_OF_MEMORY)
    except KeyboardInterrupt:
        err.write("invlift: interrupted\n")
        status = BAD_VERDICT
    out.close_if_broken()
    sys.exit(status)


def _refused(err: Output, error: InputError) -> int:
    err.write(f"invlift: {error}\n")
    err.flush()
    return BAD_INPUT


_OUT_OF_MEMORY = InputError(
    "problem",
    "one that fits into memory",
    "more nodes or sensors than do",
    "use a coarser mesh, fewer sensors or a machine with more memory",
)


def _from_system(error: OSError) -> InputError:
    """What the operating system refused, in the form of every other message."""
    if error.filename in STREAMS:
        return InputError(
            error.filename,
            "a place for what is printed",
            (error.strerror or str(error)).splitlines()[0],
            "print to another file or device; results written before are complete",
        )
    return InputError(
        f"{error.filename or 'a file'}",
        "a file or directory that can be read and written",
        (error.strerror or str(error)).splitlines()[0],
        "mend that and try again; chains saved so far are kept, --resume goes on with them",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="invlift",
        description="Posterior conductivity fields from a mesh and a few accurate sensors.",
    )
    version = f"invlift {importlib.metadata.version('invlift')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="sample the posterior and write the results")
    run.add_argument("problem", metavar="PROBLEM.toml")
    run.add_argument("--out", metavar="DIR", help="results directory (default: [output] dir)")
    run.add_argument("--method", metavar="NAME", help=" or ".join(KERNELS))
    run.add_argument("--chains", metavar="C", help="number of chains")
    run.add_argument("--draws", metavar="N", help="draws per chain")
    run.add_argument("--warmup", metavar="W", help="warm-up iterations per chain")
    run.add_argument("--seed", metavar="S", help="seed of the random numbers")
    run.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    run.set_defaults(command=_run)

    check = commands.add_parser("check", help="look a problem over before running it")
    check.add_argument("problem", metavar="PROBLEM.toml")
    check.set_defaults(command=_check)

    simulate = commands.add_parser("simulate", help="sensor readings of a draw from the prior")
    simulate.add_argument("problem", metavar="PROBLEM.toml")
    simulate.add_argument(
        "--sigma",
        metavar="S",
        help="standard deviation of normal noise (default: the noise of the problem file)",
    )
    simulate.add_argument("--seed", metavar="K", required=True, help="seed of the draw")
    simulate.add_argument(
        "--out", metavar="sensors.csv", required=True, help="sensor table to write"
    )
    simulate.set_defaults(command=_simulate)
    return parser


def _run(parsed, console: Console, errors: Console) -> int:
    from invlift.app.build import build_problem
    from invlift.app.problem_file import read_problem
    from invlift.app.progress import progress_display
    from invlift.app.sampling import sample

    spec = read_problem(parsed.problem).with_overrides(
        out=parsed.out,
        method=parsed.method,
        chains=parsed.chains,
        draws=parsed.draws,
        warmup=parsed.warmup,
        seed=parsed.seed,
    )
    directory = spec.output.dir
    _check_is_ready(directory, parsed.resume)
    field = build_problem(spec)
    info = _run_info(spec)
    spec.prepare_output("--out" if parsed.out else None)
    chains = directory / "chains"
    settings, kernel = spec.sampler, spec.sampler.kernel()
    with only_writer(chains):
        _check_is_ready(directory, parsed.resume)
        if not parsed.resume:
            _write_problem(spec)
        _say(console, _headline(field))
        preparing = threading.Thread(target=_prepare_results, args=(field,))
        preparing.start()
        with (
            interrupts_raise(),
            progress_display(
                errors,
                settings.chains,
                settings.warmup,
                settings.draws,
                kernel.standards.failures_in_brief,
            ) as on_progress,
        ):
            run = sample(
                field.problem,
                kernel=kernel,
                chains=settings.chains,
                warmup=settings.warmup,
                draws=settings.draws,
                seed=settings.seed,
                checkpoint=chains,
                resume=parsed.resume,
                on_progress=on_progress,
            )
            _write_problem(spec)  # which may have been made longer, or removed
            preparing.join()
            return _write_results(spec, field, run, info, console, errors)


def _prepare_results(field) -> None:
    """Import and compile what the results need, a second or two, beside what the chains need."""
    importlib.import_module("invlift.app.results")
    field.problem.prior.pointwise_std()


def _write_results(spec, field, run, info: dict, console: Console, errors: Console) -> int:
    """Write what a run has found, print it, and return the exit status."""
    from invlift.app.results import build_posterior

    directory = spec.output.dir
    if not run.chains:
        message = "stopped during warm-up: no draws yet; the chains so far are kept"
        _say(errors, f"invlift: {message}, go on with --resume")
        return BAD_VERDICT
    posterior = build_posterior(field, run, spec.sampler.draws)
    written = posterior.write(directory, info)
    written.append(directory / "posterior.png")
    posterior.plot_fields(written[-1])
    verdict = posterior.verdict()
    console.print(_table(posterior.summary(), console), crop=False)
    _say(console, str(verdict))
    _say(console, f"\nWritten to {directory}: {', '.join(path.name for path in written)}")
    if run.is_interrupted:
        _say(console, "The run was interrupted; finish it with --resume.")
    return 0 if verdict.is_converged and not run.is_interrupted else BAD_VERDICT


def _say(console: Console, text: str) -> None:
    """Print a line as it is: it may hold the names of files."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _check_is_ready(directory: Path, is_resuming: bool) -> None:
    """Check that a run can begin in a directory, or go on there.

    Raises
    ------
    InputError
        If it is to begin and something is there already, or to go on and no chains are.
    """
    entries = {entry.name for entry in directory.iterdir()} if directory.is_dir() else set()
    chains = directory / "chains"
    saved = {entry.name for entry in chains.iterdir()} if chains.is_dir() else set()
    num_entries = len(entries - {"chains"}) + len(saved - {LOCK})
    has_chains = "run.json" in saved
    if has_chains if is_resuming else not num_entries:
        return
    if is_resuming and not num_entries:
        raise InputError(
            f"{directory}",
            "a directory with saved chains",
            "nothing in it" if directory.is_dir() else "no such directory",
            "give the directory of the run with --out, or run without --resume to begin one",
        )
    raise InputError(
        f"{directory}",
        "a directory with saved chains" if is_resuming else "an empty output directory",
        f"{num_entries} entries" + (", but no chains/run.json" if is_resuming else ""),
        "choose another with --out"
        + (", or go on with an interrupted run by --resume" if has_chains else ""),
    )


def _write_problem(spec) -> None:
    with replace_on_success(spec.output.dir / "problem.toml") as temporary:
        temporary.write_text(spec.to_toml(), encoding="utf-8")


def _check(parsed, console: Console, errors: Console) -> int:
    from invlift.app.checks import check_problem
    from invlift.app.problem_file import read_problem
    from invlift.app.progress import says_that_it_compiles

    with says_that_it_compiles(errors):
        report = check_problem(read_problem(parsed.problem))
    for finding in report.findings:
        style = {"ok": "green", "note": "yellow", "bad": "bold red"}[finding.level]
        console.print(f"[{style}]{finding.level:>4}[/]  ", end="")
        _say(console, f"{finding.name}: {finding.detail}")
    _say(console, f"\n{report.verdict}")
    return 0 if report.is_good else BAD_VERDICT


def _simulate(parsed, console: Console, errors: Console) -> int:
    del errors
    from invlift.app.build import build_noise, build_problem
    from invlift.app.problem_file import read_problem
    from invlift.app.simulate import simulate_readings
    from invlift.fem.sensors import write_sensors
    from invlift.posterior.files import write_fields

    sigma = None if parsed.sigma is None else _number("--sigma", parsed.sigma, float)
    if sigma is not None and not 0 < sigma < float("inf"):
        raise InputError("--sigma", "a positive number", parsed.sigma, "give the noise scale")
    seed = _number("--seed", parsed.seed, int)
    if seed < 0:
        raise InputError("--seed", "an integer of at least 0", parsed.seed, "correct the option")
    out = Path(parsed.out)
    if not out.name or out.is_dir():
        found = f"the directory {out}"
        raise InputError("--out", "a new file to write", found, "choose another name")
    truth_file = out.with_name(f"{out.stem}_truth.vtu")
    for file in (out, truth_file):
        if os.path.lexists(file):  # a link that leads nowhere as well
            found = f"{file}, which is there already"
            raise InputError("--out", "a new file to write", found, "choose another name")
    spec = read_problem(parsed.problem)
    field = build_problem(spec, needs_values=False)
    noise = build_noise(spec, field.sensors) if sigma is None else sigma
    sensors, truth = simulate_readings(field, noise, seed)
    if not out.parent.is_dir():
        raise InputError(
            "--out", "a file in an existing directory", f"{out.parent}", "make the directory first"
        )
    location = field.problem.prior.location
    coefficients = {"log_conductivity": truth.pop("log_conductivity")}
    on_nodes = {"solution": truth.pop("solution")} | (coefficients if location == "nodes" else {})
    on_cells = coefficients if location == "cells" else {}
    points, cells = field.mesh.points, field.mesh.cells
    try:
        write_fields(truth_file, points, cells, on_nodes, on_cells, numbers=truth)
        with replace_on_success(out) as temporary:
            write_sensors(temporary, sensors)
    except OSError as error:
        raise InputError(
            "--out", "a file that can be written", f"{error.strerror}: {out}", "choose another"
        ) from error
    kind = "of the problem file" if sigma is None else f"{sigma:g}"
    _say(
        console,
        f"Written: {out} ({len(sensors.values)} sensors, noise {kind}) and the field behind them, "
        f"{truth_file}",
    )
    drawn = [f"{name} {_in_brief(values)}" for name, values in truth.items()]
    if drawn:
        _say(console, f"Drawn from their priors: {', '.join(drawn)}")
    return 0


def _in_brief(values) -> str:
    """A number, or the first of several."""
    first = [f"{value:.6g}" for value in values.flat[:4]]
    return first[0] if not values.ndim else f"[{' '.join(first)}{' ...' * (values.size > 4)}]"


def _number(option: str, text: str, kind):
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise InputError(option, what, repr(text), "correct the option") from None


def _headline(field) -> str:
    mesh, problem = field.mesh, field.problem
    kind = "triangles" if mesh.dim == 2 else "tetrahedra"
    left_out = len(field.observation.distances) - problem.num_observations
    distances = field.observation.distances
    note = ""
    if left_out:
        note = f" ({left_out} outside the mesh left out)"
    elif distances.any():
        moved, furthest = (distances > 0).sum(), distances.max()
        note = f" ({moved} outside the mesh moved onto it, by up to {furthest:.3g})"
    return (
        f"{mesh.num_nodes} nodes, {mesh.num_cells} {kind}; {problem.num_observations} sensors"
        f"{note}; {problem.num_unknowns} unknowns"
    )


def _table(summary, console: Console) -> Table:
    columns = ("mean", "sd", "q05", "q95", "ess_bulk", "r_hat")
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in summary[list(columns)].iterrows():
        table.add_row(str(name), *(f"{row[column]:.4g}" for column in columns))
    # Numbers cut short would be worse than lines that run over.
    wide = console.options.update(max_width=1000)
    table.width = Measurement.get(console, wide, table).maximum
    return table


def _run_info(spec) -> dict:
    packages = ("invlift", "jax", "jaxlib", "blackjax", "scikit-fem", "numpy", "scipy", "arviz")
    return {
        "versions": {name: importlib.metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
        "seed": spec.sampler.seed,
        "method": spec.sampler.method,
        "options": dict(spec.sampler.options),
        "num_warmup": spec.sampler.warmup,
        "mesh_sha256": hashlib.sha256(spec.mesh.file.read_bytes()).hexdigest(),
    }
