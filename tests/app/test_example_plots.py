"""What examples draw from the tables that are shipped with them."""

import runpy
import shutil
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Those that draw what they have saved.
SCRIPTS = sorted(
    path.relative_to(EXAMPLES).as_posix()
    for path in EXAMPLES.glob("*/*.py")
    if '"--plot"' in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_saved_tables_are_drawn(script, tmp_path, monkeypatch):
    """In a copy, so that no picture of the repository is written."""
    name = Path(script).parent.name
    folder = tmp_path / "examples" / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("*.png"))
    (tmp_path / "docs" / "images").mkdir(parents=True)
    modules = {path.stem for path in folder.glob("*.py")}
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "argv", [script, "--plot"])
    for module in modules:  # of other folders, or of the repository's own
        monkeypatch.delitem(sys.modules, module, raising=False)
    runpy.run_path(str(tmp_path / "examples" / script), run_name="__main__")
    for module in modules:
        sys.modules.pop(module, None)
    assert list(tmp_path.rglob("*.png"))
