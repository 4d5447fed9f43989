"""The Python of the README, as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    """Samples the disc: half a minute."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert len(blocks) == 1
    for name in ("meshes", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    exec(blocks[0], {})
    assert "onverged" in capsys.readouterr().out
    assert (tmp_path / "disc.png").exists()
    assert (tmp_path / "results" / "posterior.vtu").exists()
