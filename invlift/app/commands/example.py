"""``invlift example``: write the files of a small example."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import invlift
from invlift.app.commands.common import say
from invlift.errors import InputError, closest


class Example(NamedTuple):
    """Paths of the files in the repository, the one to run first, and a line of description."""

    files: tuple[str, ...]
    shows: str


#: The wheel contains these files at the same paths in the package (``pyproject.toml``).
EXAMPLES = {
    "disc": Example(
        ("examples/disc/problem.toml", "examples/disc/sensors.csv", "meshes/disc.msh"),
        "a field: ten sensors on a disc, the noise scale unknown",
    ),
    "hare_lynx": Example(
        ("examples/hare_lynx/hare_lynx.py", "examples/hare_lynx/pelts.csv"),
        "a model in time in Python: predator and prey",
    ),
}
#: Path to the meshes in a problem file of the repository; a written example has them beside it.
MESHES = "../../meshes/"


def execute(parsed, console: Console, errors: Console) -> int:
    """Run the command and return the exit status."""
    if parsed.name is None:
        for name, example in EXAMPLES.items():
            say(console, f"{name:12} {example.shows}")
        say(console, "\nWrite one: invlift example disc")
        return 0
    if parsed.name not in EXAMPLES:
        near = closest(parsed.name, EXAMPLES)
        remedy = f"did you mean {near!r}?" if near else "choose one of these"
        expected = f"an example ({', '.join(EXAMPLES)})"
        raise InputError("argument NAME", expected, repr(parsed.name), remedy)
    folder, example = Path(parsed.out or parsed.name), EXAMPLES[parsed.name]
    try:
        folder.mkdir()
    except FileExistsError:
        found = f"{folder}, which exists"
        raise InputError("--out", "a new folder", found, "choose another by --out DIR") from None
    for file in example.files:
        content = (_root() / file).read_text(encoding="utf-8").replace(MESHES, "")
        (folder / Path(file).name).write_text(content, encoding="utf-8")
    say(console, f"Written to {folder}: {', '.join(Path(file).name for file in example.files)}")
    say(console, f"Run it: invlift run {folder / Path(example.files[0]).name}")
    return 0


def _root() -> Path:
    """Return the folder of the examples: the package of an installed wheel, or the repository."""
    package = Path(invlift.__file__).parent
    return package if (package / "examples").is_dir() else package.parent
