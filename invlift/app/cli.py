"""The command line: each command is a module of `commands`.

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
        status = _command(parsed.command)(parsed, Console(file=out), Console(file=err))
        out.flush()
    except InputError as error:
        status = _refuse(err, error)
    except OSError as error:
        status = _refuse(err, _from_system(error, parsed.command))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        status = _refuse(err, _OUT_OF_MEMORY)
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
        case "next-sensor":
            from invlift.app.commands.next_sensor import execute
        case "schema":
            from invlift.app.commands.schema import execute
        case "simulate":
            from invlift.app.commands.simulate import execute
        case "serve":
            from invlift.app.commands.serve import execute
    return execute


def _refuse(err: Output, error: InputError) -> int:
    err.write(f"invlift: {error}\n")
    err.flush()
    return BAD_INPUT


_OUT_OF_MEMORY = InputError(
    "problem",
    "one that fits into memory",
    "more nodes or sensors than do",
    "use a coarser mesh, fewer sensors or a machine with more memory",
)
#: What a command has saved of its work when the system refuses it something.
_SAVED = {
    "run": "; chains saved so far are kept, --resume goes on with them",
    "calibrate": "; simulations that are done are kept, --resume goes on with them",
}


def _from_system(error: OSError, command: str) -> InputError:
    """What the operating system refused, in the form of every other message."""
    reason = (error.strerror or str(error)).splitlines()[0]
    if error.filename in STREAMS:
        remedy = "print to another file or device; results written before are complete"
        return InputError(error.filename, "a place for what is printed", reason, remedy)
    expected = "a file or directory that can be read and written"
    remedy = f"mend that and try again{_SAVED.get(command, '')}"
    return InputError(f"{error.filename or 'a file'}", expected, reason, remedy)


#: What several commands are given in the same way.
_SHARED = {
    "problem": {
        "metavar": "PROBLEM",
        "help": "a problem file, or a Python file and a name in it: model.py:problem",
    },
    "--method": {"metavar": "NAME", "help": " or ".join(KERNELS)},
    "--chains": {"metavar": "C", "help": "number of chains"},
    "--warmup": {"metavar": "W", "help": "warm-up iterations per chain"},
    "--seed": {"metavar": "S", "help": "seed of the random numbers"},
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="invlift",
        description="Posterior conductivity fields from a mesh and a few accurate sensors.",
    )
    version = f"invlift {importlib.metadata.version('invlift')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, *shared: str) -> Callable:
        """Add a command with some of the shared options; what is returned adds one of its own."""
        own = commands.add_parser(name, help=text)
        for option in shared:
            own.add_argument(option, **_SHARED[option])
        return own.add_argument

    option = command(
        "run", "sample the posterior and write the results",
        "problem", "--method", "--chains", "--warmup", "--seed",
    )  # fmt: skip
    option("--draws", metavar="N", help='draws per chain, or "converged"')
    option(
        "--until-converged",
        action="store_const",
        const="converged",
        dest="draws",
        help="draw until the verdict is good",
    )
    option("--budget", metavar="SECONDS", help="time after which the chains end")
    option("--workers", metavar="N", help="run the chains in N processes")
    option(
        "--scheduler", metavar="ADDRESS", help="run the chains on a Dask cluster, tcp://host:8786"
    )
    option("--out", metavar="DIR", help="results directory (default: [output] dir)")
    option("--resume", action="store_true", help="go on with an interrupted run")
    option("--anyway", action="store_true", help="run a problem that check calls not ready")

    option = command("check", "look a problem over before running it", "problem")
    option(
        "--plot",
        metavar="FILE.png",
        nargs="?",
        const="",
        help="draw the prior: fields, readings they give, standard deviation, correlation "
        "(default: the problem file's name with _prior.png, in the working directory)",
    )

    option = command(
        "compare", "run several sampling methods for the same time and tell how they did",
        "problem", "--chains", "--warmup", "--seed",
    )  # fmt: skip
    option(
        "--methods",
        metavar="A,B,C",
        required=True,
        help=f"of {', '.join(KERNELS)}; numpyro-nuts for its models",
    )
    option("--budget", metavar="SECONDS", default="60", help="time of each chain (default: 60)")
    option("--out", metavar="DIR", help="where to write (default: [output] dir, with -comparison)")

    option = command("report", "show a run in one page of HTML")
    option("directory", metavar="DIR", help="results directory of the run")
    option("--out", metavar="FILE.html", help="where to write (default: report.html in DIR)")

    option = command(
        "serve", "let other programs call the forward map and the log posterior (UM-Bridge)",
        "problem",
    )  # fmt: skip
    option("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    option("--port", metavar="P", default="4242", help="port (default: 4242)")

    option = command(
        "calibrate", "see in simulations whether the draws are those of the posterior",
        "problem", "--method", "--warmup", "--seed",
    )  # fmt: skip
    option(
        "--simulations", metavar="M", required=True, help="number of simulations, 200 for example"
    )
    option(
        "--draws", metavar="L", default="63", help="draws the truth is ranked among (default: 63)"
    )
    option("--out", metavar="DIR", help="where to write (default: [output] dir, with -calibration)")
    option(
        "--resume",
        action="store_true",
        help="go on with an interrupted calibration, or a longer one",
    )

    option = command("loo", "compare runs of the same readings by leave-one-out predictions")
    option("runs", metavar="DIR", nargs="+", help="results directories, two or more")

    option = command("next-sensor", "where one more reading would tell most, by the draws of a run")
    option("directory", metavar="DIR", help="results directory of the run")
    option("--num", metavar="K", default="5", help="places to choose, one by one (default: 5)")
    option("--of", metavar="NAME", help="a scalar of summary.csv that is to be known better "
           "(default: the field, everywhere)")  # fmt: skip

    option = command("schema", "print the JSON schema of problem files, for editors")
    option("--page", action="store_true", help="print a page of all keys instead")

    option = command("simulate", "sensor readings of a draw from the prior")
    option("problem", metavar="PROBLEM.toml")
    option(
        "--sigma",
        metavar="SD",
        help="standard deviation of normal noise (default: the noise of the problem file)",
    )
    option("--draws", metavar="K", help="write K fields drawn from the prior, and no readings")
    option("--seed", metavar="S", required=True, help="seed of the draw")
    option(
        "--out",
        metavar="FILE",
        required=True,
        help="sensor table to write, or with --draws a series for ParaView, draws.pvd",
    )
    return parser
