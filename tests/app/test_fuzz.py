"""Damaged and hostile files: each is read or refused in one line, soon and within memory.

Every input is a valid file with a few random changes.  A small number of them runs by default, ten
times as many for each reader with ``-m slow``.
"""

import resource
import time
from contextlib import contextmanager
from pathlib import Path

import meshio
import numpy as np
import pytest
import tomli_w
from gmsh_texts import GMSH_22, GMSH_41
from problem_files import SENSORS, changed
from structured import box_mesh

from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError
from invlift.fem.mesh import foreign_formats
from invlift.fem.mesh.construction import read_mesh
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.saving import CheckpointStore, Fingerprint
from invlift.samplers.chains.state import Block, start_chain
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.tables.sensors import read_sensors
from invlift.tables.voltages import read_voltages

FEW, MANY = 50, 500
#: What is put in the place of a word.
WORDS = (
    b"", b"0", b"-1", b"999999999", b"1e308", b"-1e-320", b"nan", b"inf", b"1_0", b"\x00", b"\xff",
    b"4294967296", b"18446744073709551615", b"[", b"]]", b"{", b'"', b"'''", b"\\", b"true",
    b"$End", b"\x1b[2J", b"\r", b"\n", b"#", b",,,", b"[" * 300, b"9" * 400, b"x" * 70_000,
)  # fmt: skip
#: Of the processor, and of memory, for one file.
SECONDS, MEGABYTES = 10.0, 1000


def damaged(content, rng):
    """The content with one to four changes of bytes, words or lines."""
    for _ in range(rng.integers(1, 5)):
        if not content:
            return content
        first, last = np.sort(rng.integers(0, len(content) + 1, 2))
        kind, last = rng.integers(8), min(last, first + 200)
        if kind == 0:
            content = content[:first]
        elif kind == 1:
            content = content[:first] + bytes([rng.integers(256)]) + content[first + 1 :]
        elif kind == 2:
            content = content[:first] + content[last:]
        elif kind == 3:
            content = content[:last] + content[first:last] + content[last:]
        elif kind == 4:
            lines = content.split(b"\n")
            one, other = rng.integers(0, len(lines), 2)
            lines[one], lines[other] = lines[other], lines[one]
            content = b"\n".join(lines)
        else:
            words = content.split(b" ")
            parts = words[rng.integers(len(words))].split(b"\n")
            word = parts[rng.integers(len(parts))]
            place = content.find(word, first) if word else first
            if place >= 0:
                new = WORDS[rng.integers(len(WORDS))]
                content = content[:place] + new + content[place + len(word) :]
    return content


@contextmanager
def limited_memory():
    """Let this process, and those it starts, have so much more memory than it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def read_all(contents, read):
    """Read each content; the number of those refused."""
    num_refused = 0
    for content in contents:
        began = time.process_time()
        try:
            with limited_memory():
                read(content)
        except InputError as error:
            num_refused += 1
            message = str(error)
            assert message.isprintable(), repr(message)
            assert len(message) < 2000, message[:3000]
        except Exception as error:
            raise AssertionError(f"{content[:2000]!r}") from error
        assert time.process_time() - began < SECONDS, content[:2000]
    return num_refused


def test_large_arrays_are_seen_each_time():
    """Negative control of the limit of memory."""
    for size in (MEGABYTES // 4, MEGABYTES // 2):
        assert read_all([b""], lambda _, size=size: np.zeros(size * 2**20, np.uint8)) == 0
    for _ in range(2):
        with pytest.raises(AssertionError):
            read_all([b""], lambda _: np.zeros(2 * MEGABYTES * 2**20, np.uint8))


@pytest.fixture
def reader(tmp_path):
    """A function that puts content into a file of a name and reads it."""

    def through(name, read):
        def read_content(content):
            (tmp_path / name).write_bytes(content)
            return read(tmp_path / name)

        return read_content

    return through


HOW_MANY = pytest.mark.parametrize(
    "count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"]
)
PROBLEM = tomli_w.dumps(
    changed(
        {
            "pde.robin": {"right": {"coefficient": 2.0, "ambient": 1.0}},
            "noise.sigma": {"distribution": "lognormal", "location": -1.0, "scale": 1.0},
        }
    )
)
VOLTAGES = "a,b,m,n,value,sigma,name\n1,2,3,4,0.1,0.01,p\n2,4,1,3,-0.4,0.01,q\n"
UNIFIED = """\
4# Number of electrodes
#x y
0 0.5
1 0.5
0.5 0
0.5 1
2# Number of data
#a b m n i/mA u/mV err/%
1 2 3 4 0.5 3.1 1.0
2 4 1 3 0.5 -0.7 1.0
"""


def binary(tmp_path, format_name):
    mesh = box_mesh(2, 2)
    points = np.column_stack([mesh.points, np.zeros(mesh.num_nodes)])
    mesh = meshio.Mesh(points, [("triangle", mesh.cells)])
    meshio.write(tmp_path / "box.msh", mesh, format_name, binary=True)
    return (tmp_path / "box.msh").read_bytes()


#: Content, reader, and what part of the number of damaged files.
READERS = {
    "p.toml": (PROBLEM, read_problem, 4),
    "s.csv": (SENSORS, lambda path: read_sensors(path, 2), 1),
    "table": (VOLTAGES, lambda path: read_voltages(path, 2), 1),
    "unified": (UNIFIED, lambda path: read_voltages(path, 2), 1),
    "text22.msh": (GMSH_22, read_mesh, 2),
    "text41.msh": (GMSH_41, read_mesh, 2),
    "binary22.msh": ("gmsh22", read_mesh, 2),
    "binary41.msh": ("gmsh", read_mesh, 2),
}


@HOW_MANY
@pytest.mark.parametrize("name", READERS)
def test_most_damaged_files_are_refused_and_the_sound_one_is_not(reader, tmp_path, name, count):
    content, read, part = READERS[name]
    content = binary(tmp_path, content) if name.startswith("binary") else content.encode()
    # A mesh that does not start like this goes to the readers of other formats, in a process.
    start, count = b"$MeshFormat" if name.endswith("msh") else b"", count // part
    assert read_all([content], reader(name, read)) == 0
    rng = np.random.default_rng(20260101)
    rest = content.removeprefix(start)
    contents = (start + damaged(rest, rng) for _ in range(count))
    assert 0.2 * count < read_all(contents, reader(name, read)) <= count


def test_one_number_does_not_cost_an_array_of_its_size(reader):
    for text, old, new in (
        (GMSH_22, "\n3 1 1 0\n", "\n999999999 1 1 0\n"),
        (GMSH_22, "$Nodes\n5\n", "$Nodes\n999999999\n"),
        (GMSH_41, "\n3\n4\n5\n", "\n999999999\n4\n5\n"),
        (GMSH_41, "$Nodes\n1 5 1 5\n2 1 0 5\n", "$Nodes\n1 5 1 5\n2 1 0 999999999\n"),
        (GMSH_41, "\n2 2 2 2\n", "\n2 2 2 999999999\n"),
    ):
        assert text.replace(old, new, 1) != text
        assert read_all([text.replace(old, new, 1).encode()], reader("m.msh", read_mesh)) == 1


def test_a_long_name_of_a_section_does_not_cost_minutes(reader, tmp_path):
    """Which meshio would print in colours."""
    content = binary(tmp_path, "gmsh22") + b"$" + b"x" * 60_000 + b"\n"
    assert read_all([content], reader("m.msh", read_mesh)) == 1


@pytest.mark.parametrize(
    "suffix",
    [
        ".vtu",
        *(pytest.param(e, marks=pytest.mark.slow) for e in (".vtk", ".node", ".inp", ".mesh")),
    ],
)
def test_other_formats(reader, tmp_path, suffix):
    """In a process of their own, which takes half a second each."""
    mesh = box_mesh(3, 1)
    path = tmp_path / f"m{suffix}"
    meshio.Mesh(mesh.points, [("tetra", mesh.cells)]).write(path)
    read, content, rng = reader(path.name, read_mesh), path.read_bytes(), np.random.default_rng(1)
    assert read_all([content], read) == 0
    read_all((damaged(content, rng) for _ in range(2)), read)


def test_nodes_without_tetrahedra(tmp_path, monkeypatch):
    """On which meshio's reader never ends."""
    monkeypatch.setattr(foreign_formats, "SECONDS", 1.0)
    mesh = box_mesh(3, 1)
    meshio.Mesh(mesh.points, [("tetra", mesh.cells)]).write(tmp_path / "m.node")
    (tmp_path / "m.ele").write_text("\n")
    with pytest.raises(InputError, match=r"m\.node.*(no end|does not parse)"):
        read_mesh(tmp_path / "m.node")


@HOW_MANY
def test_saved_pieces(tmp_path, count):
    store = CheckpointStore(tmp_path, Fingerprint("chmc", 20, 5, "0" * 64))
    plan = Plan(ConstrainedHMC(), 20, 5)
    state = start_chain(plan, np.arange(5.0))
    stats = {"step_size": np.arange(10.0)}
    block = Block(state.position._replace(iteration=10), 10, True, {}, stats, {})
    store.save(0, state, [state.add(plan, block)])
    (path,) = tmp_path.glob("*.piece")
    content = path.read_bytes()
    rng = np.random.default_rng(3)

    def load(content):
        path.write_bytes(content)
        return store.load(0, plan)

    contents = [each for each in (damaged(content, rng) for _ in range(count)) if each != content]
    assert read_all([content], load) == 0
    assert read_all(contents, load) == len(contents)
    record = tmp_path / "run.json"
    content = record.read_bytes()

    def claim(content):
        record.write_bytes(content)
        store.claim(is_resuming=True)

    read_all((damaged(content, rng) for _ in range(count)), claim)
