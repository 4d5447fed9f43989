"""The process that reads meshes of formats other than gmsh's."""

import subprocess
import sys
from pathlib import Path

import meshio
import numpy as np
import pytest
from structured import box_mesh

import invlift
from invlift.fem.mesh.foreign_formats import MEMORY, read_foreign

ROOT = str(Path(invlift.__file__).parents[1])


@pytest.fixture
def mesh_file(tmp_path):
    mesh = box_mesh(2, 3)
    points = np.pad(mesh.points, ((0, 0), (0, 1)))
    meshio.write_points_cells(tmp_path / "box.vtu", points, [("triangle", mesh.cells)])
    return tmp_path / "box.vtu"


def test_modules_in_the_working_folder_are_not_run(mesh_file, monkeypatch):
    folder = mesh_file.parent
    for name in ("meshio", "random", "invlift"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(folder)
    for place in ("", ".", ROOT):
        monkeypatch.syspath_prepend(place)
    assert read_foreign(mesh_file).points.shape == (16, 3)
    assert not (folder / "ran").exists()


def test_a_lower_limit_of_memory_stands(mesh_file):
    """That of a batch system, which no process may raise."""
    program = f"""
import resource
from pathlib import Path
from invlift.fem.mesh.foreign_formats import read_foreign
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY - 2**20}, {MEMORY - 2**20}))
print(len(read_foreign(Path({str(mesh_file)!r})).points))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "16\n", found.stderr
