"""``invlift serve``: forward map and log posterior for other programs."""

from __future__ import annotations

import logging

from rich.console import Console

from invlift.app.commands.common import headline, integer_option, say
from invlift.app.problems import build_with_readings, open_problem
from invlift.errors import InputError


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors
    port = integer_option("--port", parsed.port, 0, 2**16 - 1)
    if not parsed.host:
        raise InputError("--host", "an address of this machine", "''", "127.0.0.1 is the usual one")
    try:
        from aiohttp import web
    except ImportError:
        remedy = "install it: pip install 'invlift[serve]'"
        raise InputError("serve", "the package aiohttp", "none", remedy) from None
    from invlift.app.um_bridge import build_application, listen, served_models

    field = build_with_readings(open_problem(parsed.problem), "serve")
    models = served_models(field.problem)
    listener = listen(parsed.host, port)
    host, port = listener.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def announce(_) -> None:
        say(console, headline(field))
        for model in models:
            say(console, f"{model.name}: {model.num_inputs} numbers to {model.num_outputs}")
        say(console, f"Serving at http://{place} by UM-Bridge; Ctrl-C ends it.")

    # What clients do wrong is answered to them alone.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    # Ctrl-C and the signal of batch systems end it; what is being computed has a second to finish.
    application = build_application(models, parsed.host)
    quiet = {"print": announce, "access_log": None}
    web.run_app(application, sock=listener, shutdown_timeout=1, **quiet)
    return 0
