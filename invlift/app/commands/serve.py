"""``invlift serve``: serve forward map and log posterior to other programs."""

from __future__ import annotations

from rich.console import Console

from invlift.app.commands.common import built, headline, say, typed
from invlift.app.problems import open_problem, with_readings
from invlift.errors import InputError
from invlift.files.tables import integer


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    port = typed("--port", parsed.port, integer(0, 2**16 - 1))
    try:
        from aiohttp import web
    except ImportError:
        remedy = "install it: pip install 'invlift[serve]'"
        raise InputError("serve", "the package aiohttp", "none", remedy) from None
    from invlift.app.um_bridge import build_application, listen, served_models

    problem = built(open_problem(parsed.problem), errors)
    problem = with_readings(problem, parsed.problem, "serve")
    models = served_models(problem)
    listener = listen(parsed.host, port)

    def announce(_) -> None:
        say(console, headline(problem))
        for model in models:
            say(console, f"{model.name}: {model.num_inputs} numbers to {model.num_outputs}")
        host, port = listener.getsockname()
        say(console, f"Serving at http://{host}:{port} by UM-Bridge; Ctrl-C ends it.")

    # Ctrl-C and the signal of batch systems end the server; running requests get one second.
    quiet = {"print": announce, "access_log": None}
    web.run_app(build_application(models), sock=listener, shutdown_timeout=1, **quiet)
    return 0
