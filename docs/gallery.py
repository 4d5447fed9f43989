"""The gallery of examples: `python docs/gallery.py` writes the last part of `examples/README.md`.

Title, line and picture of an example are those of its own page: the heading, the first paragraph
and the first picture.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "examples" / "README.md"
START = "<!-- What follows is written by `python docs/gallery.py`. -->\n"
NUM_COLUMNS = 3


class Example(NamedTuple):
    """An example by its page: paths of page and picture from the folder of examples."""

    page: str
    title: str
    line: str
    picture: str | None
    has_mesh: bool


def read_example(page: Path) -> Example:
    """What the gallery shows of an example's page."""
    text = page.read_text(encoding="utf-8")
    title, line, *_ = [part for part in text.split("\n\n") if part.strip()]
    found = re.search(r"!\[[^\]]*\]\(([^)\s]+\.png)\)", text)
    picture = found and os.path.relpath(page.parent / found[1], PAGE.parent)
    return Example(
        str(page.relative_to(PAGE.parent)), title.removeprefix("# "), " ".join(line.split()),
        picture, any(page.parent.glob("*.toml")),
    )  # fmt: skip


def cell(example: Example) -> str:
    """One cell of the gallery's table."""
    link = f"[**{example.title}**]({example.page})"
    shown = f"[![]({example.picture})]({example.page})<br>" if example.picture else ""
    return f"{shown}{link}<br>{example.line}"


def table(examples: list[Example]) -> str:
    """Rows of the gallery."""
    cells = [cell(example) for example in examples]
    cells += [""] * (-len(cells) % NUM_COLUMNS)
    rows = [cells[at : at + NUM_COLUMNS] for at in range(0, len(cells), NUM_COLUMNS)]
    lines = ["| " + " | ".join(row) + " |" for row in [[" "] * NUM_COLUMNS, ["---"] * NUM_COLUMNS]]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def gallery() -> str:
    """Return the generated part of the page."""
    examples = [read_example(page) for page in sorted(PAGE.parent.glob("*/README.md"))]
    with_mesh = table([example for example in examples if example.has_mesh])
    others = table([example for example in examples if not example.has_mesh])
    return f"## Fields on a mesh\n\n{with_mesh}\n\n## Without a mesh\n\n{others}\n"


if __name__ == "__main__":
    start = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(f"{start}{START}\n{gallery()}", encoding="utf-8")
