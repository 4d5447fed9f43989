"""Entry point of `invlift` and `python -m invlift`, before other modules are imported."""

import contextlib
import gc
import os
import signal
import sys

#: Exit status for bad input, and for a command that was stopped.
BAD_INPUT, STOPPED = 2, 3
#: Number of new objects between two garbage collections. JAX makes millions of objects that stay:
#: with the default of Python, 700, collections take 2 s of a run of half a minute.
NUM_NEW_OBJECTS = 100_000


def _stop(*_) -> None:
    """End the process at once, as an import might suppress an exception; nothing is lost yet."""
    os.write(2, b"invlift: interrupted\n")
    os._exit(STOPPED)


def main() -> None:
    """Run the command line and exit."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) is handler:  # unless it is ignored
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
        # All files are closed. A normal exit would need half a second to free compiled programs.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code or 0)


if __name__ == "__main__":
    main()
