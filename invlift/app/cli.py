"""The command line: each command is a module of `commands`.

Exit status 0; 2 for bad input, with one line on standard error; 3 when the work was done but the
verdict on it is bad, or when it was stopped before it was done.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import jax
from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT, interrupts_raise
from invlift.app.runs.environment import check_platform
from invlift.errors import InputError
from invlift.programs.compilation import keep_compiled_programs
from invlift.programs.precision import enable_x64
from invlift.samplers.kernels import KERNELS

BAD_INPUT = 2


class _Console(Console):
    """Prints no more where nobody reads on, as with ``| head -1``, and the command goes on."""

    def on_broken_pipe(self) -> None:
        """Let what is printed from now on go nowhere."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def print(self, *things, **style) -> None:
        """As usual; an error of the system names what could not be printed to."""
        with _named(self.file):
            super().print(*things, **style)


@contextmanager
def _named(stream: TextIO) -> Iterator[None]:
    """Let an error of the system that names no file name a stream."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or stream.name
        raise


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process, and exit."""
    parsed = _parser().parse_args(arguments)
    enable_x64()
    # Of what cannot be helped: a folder for matplotlib's fonts that cannot be written to.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    logging.basicConfig(format="invlift: note: %(message)s", stream=sys.stderr, force=True)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names of files may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    keep_compiled_programs()
    try:
        check_platform()
        with interrupts_raise():
            status = _command(parsed.command)(parsed, _Console(), _Console(stderr=True))
        with _named(sys.stdout):
            sys.stdout.flush()
    except InputError as error:
        status = _refuse(error)
    except OSError as error:
        status = _refuse(_from_system(error, parsed.command))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        status = _refuse(_OUT_OF_MEMORY)
    except KeyboardInterrupt:
        print("invlift: interrupted", file=sys.stderr)
        status = BAD_VERDICT
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
        case "example":
            from invlift.app.commands.example import execute
        case "report":
            from invlift.app.commands.results import report as execute
        case "calibrate":
            from invlift.app.commands.calibrate import execute
        case "loo":
            from invlift.app.commands.results import loo as execute
        case "next-sensor":
            from invlift.app.commands.results import next_sensor as execute
        case "schema":
            from invlift.app.commands.schema import execute
        case "simulate":
            from invlift.app.commands.simulate import execute
        case "serve":
            from invlift.app.commands.serve import execute
    return execute


def _refuse(error: InputError) -> int:
    print(f"invlift: {error}", file=sys.stderr)
    return BAD_INPUT


_OUT_OF_MEMORY = InputError(
    "problem", "one that fits into memory", "more nodes or sensors than do",
    "use a coarser mesh, fewer sensors or a machine with more memory",
)  # fmt: skip
#: What a command has saved of its work when the system refuses it something.
_SAVED = {
    "run": "; what chains have saved is kept, --resume goes on from there",
    "calibrate": "; what simulations have saved is kept, --resume goes on from there",
    "compare": "; methods that are done are kept, --resume goes on from there",
}


def _from_system(error: OSError, command: str) -> InputError:
    """What the operating system refused, in the form of every other message."""
    reason = (error.strerror or str(error)).splitlines()[0]
    expected = "a file or directory that can be read and written"
    remedy = f"mend that and try again{_SAVED.get(command, '')}"
    return InputError(f"{error.filename or 'a file'}", expected, reason, remedy)


#: What several commands are given in the same way: name of the value, and help.
_SHARED = {
    "problem": ("PROBLEM", "a problem file, or a Python file and a name in it: model.py:problem"),
    "--method": ("NAME", " or ".join(KERNELS)),
    "--chains": ("C", "number of chains"),
    "--warmup": ("W", "warm-up iterations per chain"),
    "--seed": ("S", "seed of the random numbers"),
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

        def option(flag: str, value: str | None, text: str | None, **settings) -> None:
            own.add_argument(flag, help=text, **settings | ({"metavar": value} if value else {}))

        for flag in shared:
            option(flag, *_SHARED[flag])
        return option

    option = command("example", "write the files of a small example, or list the examples")
    option("name", "NAME", "name of the example; without it they are listed", nargs="?")
    option("--out", "DIR", "new folder to write (default: the example's name)")

    shared = "problem", "--method", "--chains", "--warmup", "--seed"
    option = command("run", "sample the posterior and write the results", *shared)
    text = "an option of the method, as in [sampler.options]; may be given several times"
    option("--option", "KEY=VALUE", text, action="append")
    option("--draws", "N", 'draws per chain, or "converged"')
    constant = {"action": "store_const", "const": "converged", "dest": "draws"}
    option("--until-converged", None, "draw until the verdict is good", **constant)
    option("--budget", "SECONDS", "time after which the chains end")
    option("--workers", "N", "run the chains in N processes")
    option("--scheduler", "ADDRESS", "run the chains on a Dask cluster, tcp://host:8786")
    option("--out", "DIR", "results directory (default: [output] dir)")
    option("--resume", None, "go on with an interrupted run", action="store_true")
    option("--anyway", None, "run a problem that check calls not ready", action="store_true")

    option = command("check", "look a problem over before running it", "problem")
    text = "draw the prior: fields, readings they give, standard deviation, correlation (default: "
    text += "the problem file's name with _prior.png, in the working directory; also .pdf, .svg)"
    option("--plot", "FILE", text, nargs="?", const="")

    text = "run several sampling methods for the same time and tell how they did"
    option = command("compare", text, "problem", "--chains", "--warmup", "--seed")
    text = f"of {', '.join(KERNELS)}; numpyro-nuts for its models"
    option("--methods", "A,B,C", text, required=True)
    option("--budget", "SECONDS", "time of each chain (default: 60)", default="60")
    option("--out", "DIR", "where to write (default: [output] dir, with -comparison)")
    option("--resume", None, "go on with an interrupted comparison", action="store_true")

    option = command("report", "show a run in one page of HTML")
    option("directory", "DIR", "results directory of the run")
    option("--out", "FILE.html", "where to write (default: report.html in DIR)")

    text = "let other programs call the forward map and the log posterior (UM-Bridge)"
    option = command("serve", text, "problem")
    text = "address to listen on (default: this machine alone)"
    option("--host", None, text, default="127.0.0.1")
    option("--port", "P", "port (default: 4242)", default="4242")

    text = "see in simulations whether the draws are those of the posterior"
    option = command("calibrate", text, "problem", "--method", "--warmup", "--seed")
    option("--simulations", "M", "number of simulations, 200 for example", required=True)
    option("--draws", "L", "draws the truth is ranked among (default: 63)", default="63")
    option("--out", "DIR", "where to write (default: [output] dir, with -calibration)")
    text = "go on with an interrupted calibration, or a longer one"
    option("--resume", None, text, action="store_true")

    option = command("loo", "compare runs of the same readings by leave-one-out predictions")
    option("runs", "DIR", "results directories, two or more", nargs="+")

    option = command("next-sensor", "where one more reading would tell most, by the draws of a run")
    option("directory", "DIR", "results directory of the run")
    option("--num", "K", "places to choose, one by one (default: 5)", default="5")
    text = "a scalar of summary.csv to be known better (default: the field, everywhere)"
    option("--of", "NAME", text)

    option = command("schema", "print the JSON schema of problem files, for editors")
    option("--page", None, "print a page of all keys instead", action="store_true")

    option = command("simulate", "readings of a draw from the prior", "problem")
    text = "standard deviation of normal noise (default: the noise of the problem)"
    option("--sigma", "SD", text)
    option("--draws", "K", "write K fields drawn from the prior, and no readings")
    option("--seed", "S", "seed of the draw", required=True)
    text = "table of readings to write, or with --draws a series for ParaView, draws.pvd"
    option("--out", "FILE", text, required=True)
    return parser
