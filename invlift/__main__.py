"""The command `invlift` and `python -m invlift`: what must work before all else is imported."""

import contextlib
import gc
import os
import signal
import sys

#: Exit status of bad input, and of what was stopped before it was done.
BAD_INPUT, STOPPED = 2, 3
#: New objects between two searches for unused ones. JAX makes millions that stay: with Python's own
#: 700, searches take 2 s of a run of half a minute.
NUM_NEW_OBJECTS = 100_000


def _stop(*_) -> None:
    """End at once: nothing has been computed yet, and an import may swallow an exception."""
    os.write(2, b"invlift: interrupted\n")
    os._exit(STOPPED)


def main() -> None:
    """Run the command line and exit."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) is handler:  # not where it is ignored
            signal.signal(number, _stop)
    gc.set_threshold(NUM_NEW_OBJECTS)
    from invlift.app.runs.environment import prepare_environment
    from invlift.errors import InputError

    try:
        prepare_environment()
    except InputError as error:
        print(f"invlift: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    from invlift.app.cli import main

    try:
        main(sys.argv[1:])
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        # All files are closed: taking the compiled programs apart would take half a second.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code or 0)


if __name__ == "__main__":
    main()
