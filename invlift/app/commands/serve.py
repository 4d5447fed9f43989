"""``invlift serve``: forward map and log posterior for other programs."""

from __future__ import annotations

import logging

from rich.console import Console

from invlift.app.commands.common import headline, number_option, say
from invlift.app.problems import build, open_problem
from invlift.app.served_models import served_models
from invlift.errors import InputError


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors
    port = number_option("--port", parsed.port, int)
    if not 0 <= port < 2**16:
        raise InputError("--port", "a number from 0 to 65535", parsed.port, "choose one")
    if not parsed.host:
        raise InputError("--host", "an address of this machine", "''", "127.0.0.1 is the usual one")
    try:
        from aiohttp import web
    except ImportError:
        raise InputError(
            "serve", "the package aiohttp", "none", "install it: pip install 'invlift[serve]'"
        ) from None
    from invlift.app.um_bridge import build_application, listen

    field = build(open_problem(parsed.problem))
    models = served_models(field.problem)
    try:
        listener = listen(parsed.host, port)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"--host {parsed.host} --port {port}",
            "an address of this machine that is free",
            reason,
            "choose another address or port",
        ) from None
    host, port = listener.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def tell(_) -> None:
        say(console, headline(field))
        for model in models:
            say(console, f"{model.name}: {model.num_inputs} numbers to {model.num_outputs}")
        say(console, f"Serving at http://{place} by UM-Bridge; Ctrl-C ends it.")

    # What clients do wrong is told to them.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    # Ctrl-C and the signal of batch systems end it; what is being computed has a second to finish.
    web.run_app(
        build_application(models, parsed.host),
        sock=listener,
        print=tell,
        access_log=None,
        shutdown_timeout=1,
    )
    return 0
