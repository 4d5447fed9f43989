"""``invlift serve``: forward map and log posterior for other programs."""

from __future__ import annotations

from rich.console import Console

from invlift.app.build import build_problem
from invlift.app.commands.common import headline, number_option, say
from invlift.app.problem_file import read_problem
from invlift.app.served_models import served_models
from invlift.app.terminal import interrupts_raise
from invlift.app.um_bridge import build_server
from invlift.errors import InputError


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    del errors
    port = number_option("--port", parsed.port, int)
    if not 0 <= port < 2**16:
        raise InputError("--port", "a number from 0 to 65535", parsed.port, "choose one")
    field = build_problem(read_problem(parsed.problem))
    models = served_models(field.problem)
    try:
        server = build_server(models, parsed.host, port)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"--host {parsed.host} --port {port}",
            "an address of this machine that is free",
            reason,
            "choose another port",
        ) from None
    say(console, headline(field))
    for model in models:
        say(console, f"{model.name}: {model.num_inputs} numbers to {model.num_outputs}")
    host, port = server.server_address[:2]
    say(console, f"Serving at http://{host}:{port} by UM-Bridge; Ctrl-C ends it.")
    with interrupts_raise(), server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
