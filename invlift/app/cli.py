"""Parser of the command line.  JAX and the commands are imported only after parsing.

Each command is a module of `commands`.  The exit status is 0; or 2 for bad input, with one line on
standard error; or 3 if the work is finished but the verdict is bad, or if it was stopped.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Callable

DESCRIPTION = """\
Unknown fields and numbers from a model and a few accurate readings, with their uncertainty:
conductivity on a mesh from sensors, wells or electrodes, steady or changing in time; parameters of
differential equations, state spaces and diffusions; NumPyro models.
"""
#: Description and example of each command.  The first ones need no file of the user.
COMMANDS = {
    "example": ("write the files of a small example, or list the examples", "disc"),
    "check": ("check a problem before a run", "disc/problem.toml"),
    "run": ("sample the posterior and write the results", "disc/problem.toml"),
    "report": ("show a run in one page of HTML", "disc/results/disc"),
    "next-sensor": (
        "where one more reading reduces the uncertainty most", "disc/results/disc",
    ),
    "loo": ("compare runs of the same readings by leave-one-out predictions", "one/ another/"),
    "simulate": (
        "readings of a draw from the prior", "disc/problem.toml --seed 1 --out simulated.csv",
    ),
    "compare": (
        "run several sampling methods for the same time and compare them",
        "disc/problem.toml --methods chmc,nuts",
    ),
    "calibrate": (
        "check with simulated data whether draws are those of the posterior",
        "disc/problem.toml --simulations 200",
    ),
    "serve": (
        "let other programs call the forward map and the log posterior (UM-Bridge)",
        "disc/problem.toml",
    ),
    "schema": ("print the JSON schema of problem files, for editors", "> schema.json"),
}  # fmt: skip
#: Arguments shared by several commands: name of the value, and help.
_SHARED = {
    "problem": ("PROBLEM", "a problem file, or a Python file and a name in it: model.py:problem"),
    "--method": ("NAME", "{methods}"),
    "--chains": ("C", "number of chains"),
    "--warmup": ("W", "warm-up iterations per chain"),
    "--seed": ("S", "seed of the random numbers"),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process, and exit."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parsed = _parser(arguments[0] if arguments else "").parse_args(arguments)
    from invlift.app.commands.process import run_command

    sys.exit(run_command(parsed))


def _methods(command: str) -> str:
    """Return the names of the sampling methods for a command that takes one; this imports JAX."""
    if command not in ("run", "compare", "calibrate"):
        return ""
    from invlift.samplers.kernels import KERNELS, REFERENCE

    names = [name for name in KERNELS if name not in REFERENCE]  # a script may have added some
    return f"{', '.join(names)}; to compare with: {', '.join(REFERENCE)}"


def _parser(command: str) -> argparse.ArgumentParser:
    """Return the parser, with the names of methods in the help of commands that take them."""
    methods, style = _methods(command), argparse.RawDescriptionHelpFormatter
    examples = "\n".join(f"  invlift {name} {rest}" for name, (_, rest) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="invlift",
        description=DESCRIPTION,
        epilog=f"examples:\n{examples}\n\n`invlift COMMAND --help` lists the options of a command.",
        formatter_class=style,
    )
    version = f"invlift {importlib.metadata.version('invlift')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", title="commands"
    )
    parsers = {
        name: commands.add_parser(
            name, help=text, epilog=f"example: invlift {name} {rest}", formatter_class=style
        )
        for name, (text, rest) in COMMANDS.items()
    }

    def options_of(name: str, *shared: str) -> Callable:
        """Add shared options to a command; return a function that adds further options."""

        def option(flag: str, value: str | None, text: str | None, **settings) -> None:
            given = settings | ({"metavar": value} if value else {})
            parsers[name].add_argument(flag, help=text, **given)

        for flag in shared:
            value, text = _SHARED[flag]
            option(flag, value, text.format(methods=methods))
        return option

    option = options_of("example")
    option("name", "NAME", "name of the example; without it they are listed", nargs="?")
    option("--out", "DIR", "new folder to write (default: the example's name)")

    shared = "problem", "--method", "--chains", "--warmup", "--seed"
    option = options_of("run", *shared)
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

    option = options_of("check", "problem")
    text = "draw the prior: fields, readings they give, standard deviation, correlation (default: "
    text += "the problem file's name with _prior.png, in the working directory; also .pdf, .svg)"
    option("--plot", "FILE", text, nargs="?", const="")

    option = options_of("compare", "problem", "--chains", "--warmup", "--seed")
    text = f"of {methods}; numpyro-nuts for its models"
    option("--methods", "A,B,C", text, required=True)
    option("--budget", "SECONDS", "time of each chain (default: 60)", default="60")
    option("--out", "DIR", "where to write (default: [output] dir, with -comparison)")
    option("--resume", None, "go on with an interrupted comparison", action="store_true")

    option = options_of("report")
    option("directory", "DIR", "results directory of the run")
    option("--out", "FILE.html", "where to write (default: report.html in DIR)")

    option = options_of("serve", "problem")
    text = "address to listen on (default: this machine alone)"
    option("--host", None, text, default="127.0.0.1")
    option("--port", "P", "port (default: 4242)", default="4242")

    option = options_of("calibrate", "problem", "--method", "--warmup", "--seed")
    option("--simulations", "M", "number of simulations, 200 for example", required=True)
    option("--draws", "L", "draws the truth is ranked among (default: 63)", default="63")
    option("--out", "DIR", "where to write (default: [output] dir, with -calibration)")
    text = "go on with an interrupted calibration, or a longer one"
    option("--resume", None, text, action="store_true")

    option = options_of("loo")
    option("runs", "DIR", "results directories, two or more; one with --refit", nargs="+")
    text = "run again without each of the K readings whose estimates are the least reliable"
    option("--refit", "K", text)

    option = options_of("next-sensor")
    option("directory", "DIR", "results directory of the run")
    option("--num", "K", "places to choose, one by one (default: 5)", default="5")
    text = "a scalar of summary.csv to be known better (default: the field, everywhere)"
    option("--of", "NAME", text)

    option = options_of("schema")
    option("--page", None, "print a page of all keys instead", action="store_true")

    option = options_of("simulate", "problem")
    text = "standard deviation of normal noise (default: the noise of the problem)"
    option("--sigma", "SD", text)
    option("--draws", "K", "write K fields drawn from the prior, and no readings")
    option("--seed", "S", "seed of the draw", required=True)
    text = "table of readings to write, or with --draws a series for ParaView, draws.pvd"
    option("--out", "FILE", text, required=True)
    return parser
