"""The command line: run, check, compare, calibrate, loo, report, schema, serve, simulate.

Exit status 0; 2 for bad input, with one line on standard error; 3 when the work was done but the
verdict on it is bad, or when it was stopped before it was done.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
from collections.abc import Callable

import jax
from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT
from invlift.app.terminal import STREAMS, Output
from invlift.compilation import keep_compiled_programs
from invlift.errors import InputError
from invlift.precision import enable_x64
from invlift.samplers.kernels import KERNELS

BAD_INPUT = 2


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
        execute = _command(parsed.command)
        status = execute(parsed, Console(file=out), Console(file=err))
        out.flush()
    except InputError as error:
        status = _refused(err, error)
    except OSError as error:
        status = _refused(err, _from_system(error, parsed.command))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        status = _refused(err, _OUT_OF_MEMORY)
    except KeyboardInterrupt:
        err.write("invlift: interrupted\n")
        status = BAD_VERDICT
    out.close_if_broken()
    sys.exit(status)


def _command(name: str) -> Callable[..., int]:
    """The function of a command; each imports only what it needs itself."""
    match name:
        case "run":
            from invlift.app.commands.run import execute
        case "check":
            from invlift.app.commands.check import execute
        case "compare":
            from invlift.app.commands.compare import execute
        case "report":
            from invlift.app.commands.report import execute
        case "calibrate":
            from invlift.app.commands.calibrate import execute
        case "loo":
            from invlift.app.commands.loo import execute
        case "schema":
            from invlift.app.commands.schema import execute
        case "simulate":
            from invlift.app.commands.simulate import execute
        case "serve":
            from invlift.app.commands.serve import execute
    return execute


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


#: What a command has kept of its work when the system refuses it something.
_KEPT = {
    "run": "; chains saved so far are kept, --resume goes on with them",
    "calibrate": "; simulations that are done are kept, --resume goes on with them",
}


def _from_system(error: OSError, command: str) -> InputError:
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
        f"mend that and try again{_KEPT.get(command, '')}",
    )


_PROBLEM = "a problem file, or a Python file and a name in it: model.py:problem"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="invlift",
        description="Posterior conductivity fields from a mesh and a few accurate sensors.",
    )
    version = f"invlift {importlib.metadata.version('invlift')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="sample the posterior and write the results")
    run.add_argument("problem", metavar="PROBLEM", help=_PROBLEM)
    run.add_argument("--out", metavar="DIR", help="results directory (default: [output] dir)")
    run.add_argument("--method", metavar="NAME", help=" or ".join(KERNELS))
    run.add_argument("--chains", metavar="C", help="number of chains")
    run.add_argument("--draws", metavar="N", help='draws per chain, or "converged"')
    run.add_argument(
        "--until-converged",
        action="store_const",
        const="converged",
        dest="draws",
        help="draw until the verdict is good",
    )
    run.add_argument("--budget", metavar="SECONDS", help="time after which the chains end")
    run.add_argument("--warmup", metavar="W", help="warm-up iterations per chain")
    run.add_argument("--seed", metavar="S", help="seed of the random numbers")
    run.add_argument("--workers", metavar="N", help="run the chains in N processes")
    run.add_argument(
        "--scheduler", metavar="ADDRESS", help="run the chains on a Dask cluster, tcp://host:8786"
    )
    run.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    run.add_argument(
        "--anyway", action="store_true", help="run a problem that check calls not ready"
    )
    run.set_defaults(command="run")

    check = commands.add_parser("check", help="look a problem over before running it")
    check.add_argument("problem", metavar="PROBLEM", help=_PROBLEM)
    check.add_argument(
        "--plot",
        metavar="FILE.png",
        nargs="?",
        const="",
        help="draw the prior: fields, readings they give, standard deviation, correlation "
        "(default: the problem file's name with _prior.png, in the working directory)",
    )
    check.set_defaults(command="check")

    compare = commands.add_parser(
        "compare", help="run several sampling methods for the same time and tell how they did"
    )
    compare.add_argument("problem", metavar="PROBLEM", help=_PROBLEM)
    compare.add_argument(
        "--methods",
        metavar="A,B,C",
        required=True,
        help=f"of {', '.join(KERNELS)}; numpyro-nuts for its models",
    )
    compare.add_argument(
        "--budget", metavar="SECONDS", default="60", help="time of each chain (default: 60)"
    )
    compare.add_argument("--chains", metavar="C", help="number of chains of each method")
    compare.add_argument("--warmup", metavar="W", help="most warm-up iterations per chain")
    compare.add_argument("--seed", metavar="S", help="seed of the random numbers")
    compare.add_argument(
        "--out", metavar="DIR", help="where to write (default: [output] dir, with -comparison)"
    )
    compare.set_defaults(command="compare")

    report = commands.add_parser("report", help="show a run in one page of HTML")
    report.add_argument("directory", metavar="DIR", help="results directory of the run")
    report.add_argument(
        "--out", metavar="FILE.html", help="where to write (default: report.html in DIR)"
    )
    report.set_defaults(command="report")

    serve = commands.add_parser(
        "serve", help="let other programs call the forward map and the log posterior (UM-Bridge)"
    )
    serve.add_argument("problem", metavar="PROBLEM", help=_PROBLEM)
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine alone)"
    )
    serve.add_argument("--port", metavar="P", default="4242", help="port (default: 4242)")
    serve.set_defaults(command="serve")

    calibrate = commands.add_parser(
        "calibrate", help="see in simulations whether the draws are those of the posterior"
    )
    calibrate.add_argument("problem", metavar="PROBLEM", help=_PROBLEM)
    calibrate.add_argument(
        "--simulations", metavar="M", required=True, help="number of simulations, 200 for example"
    )
    calibrate.add_argument(
        "--draws", metavar="L", default="63", help="draws the truth is ranked among (default: 63)"
    )
    calibrate.add_argument("--method", metavar="NAME", help=" or ".join(KERNELS))
    calibrate.add_argument("--warmup", metavar="W", help="warm-up iterations per chain")
    calibrate.add_argument("--seed", metavar="S", help="seed of the random numbers")
    calibrate.add_argument(
        "--out", metavar="DIR", help="where to write (default: [output] dir, with -calibration)"
    )
    calibrate.add_argument(
        "--resume",
        action="store_true",
        help="go on with an interrupted calibration, or a longer one",
    )
    calibrate.set_defaults(command="calibrate")

    loo = commands.add_parser(
        "loo", help="compare runs of the same readings by leave-one-out predictions of them"
    )
    loo.add_argument("runs", metavar="DIR", nargs="+", help="results directories, two or more")
    loo.set_defaults(command="loo")

    schema = commands.add_parser(
        "schema", help="print the JSON schema of problem files, by which editors know the keys"
    )
    schema.add_argument("--page", action="store_true", help="print a page of all keys instead")
    schema.set_defaults(command="schema")

    simulate = commands.add_parser("simulate", help="sensor readings of a draw from the prior")
    simulate.add_argument("problem", metavar="PROBLEM.toml")
    simulate.add_argument(
        "--sigma",
        metavar="SD",
        help="standard deviation of normal noise (default: the noise of the problem file)",
    )
    simulate.add_argument(
        "--draws", metavar="K", help="write K fields drawn from the prior, and no readings"
    )
    simulate.add_argument("--seed", metavar="S", required=True, help="seed of the draw")
    simulate.add_argument(
        "--out",
        metavar="FILE",
        required=True,
        help="sensor table to write, or with --draws a series for ParaView, draws.pvd",
    )
    simulate.set_defaults(command="simulate")
    return parser
