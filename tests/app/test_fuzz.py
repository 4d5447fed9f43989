"""Damaged and hostile files: each is read or refused in one line, soon and within memory.

Every input is a valid file with a few random changes.  A small number of them runs by default, ten
thousand for each reader with ``-m slow``.
"""

import resource
import time
from contextlib import contextmanager
from pathlib import Path

import meshio
import numpy as np
import pytest
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

FEW, MANY = 50, 1_500
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
        kind = rng.integers(8)
        if kind == 0:
            content = content[:first]
        elif kind == 1:
            content = content[:first] + bytes([rng.integers(256)]) + content[first + 1 :]
        elif kind == 2:
            last = min(last, first + 200)
            content = content[:first] + content[last:]
        elif kind == 3:
            last = min(last, first + 200)
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


def check_reader(content, read, count, start=b""):
    """Most contents damaged after their start are refused, and the sound one is not."""
    assert read_all([content], read) == 0
    rng = np.random.default_rng(20260101)
    rest = content.removeprefix(start)
    num_refused = read_all((start + damaged(rest, rng) for _ in range(count)), read)
    assert 0.2 * count < num_refused <= count


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


@HOW_MANY
def test_problem_files(reader, count):
    import tomli_w

    content = tomli_w.dumps(
        changed(
            {
                "pde.robin": {"right": {"coefficient": 2.0, "ambient": 1.0}},
                "noise.sigma": {"distribution": "lognormal", "location": -1.0, "scale": 1.0},
            }
        )
    )
    check_reader(content.encode(), reader("p.toml", read_problem), min(count, 400))


@HOW_MANY
def test_sensor_tables(reader, count):
    read = reader("s.csv", lambda path: read_sensors(path, 2))
    check_reader(SENSORS.encode(), read, count)


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


@HOW_MANY
@pytest.mark.parametrize("content", [VOLTAGES, UNIFIED], ids=["table", "unified"])
def test_tables_of_voltages(reader, content, count):
    check_reader(content.encode(), reader("v", lambda path: read_voltages(path, 2)), count)


def gmsh_content(tmp_path, version, is_binary):
    if not is_binary:
        return {"2.2": GMSH_22, "4.1": GMSH_41}[version].encode()
    path, mesh = tmp_path / "box.msh", box_mesh(2, 2)
    points = np.column_stack([mesh.points, np.zeros(mesh.num_nodes)])
    mesh = meshio.Mesh(points, [("triangle", mesh.cells)])
    meshio.write(path, mesh, {"2.2": "gmsh22", "4.1": "gmsh"}[version], binary=True)
    return path.read_bytes()


@HOW_MANY
@pytest.mark.parametrize("is_binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("version", ["2.2", "4.1"])
def test_gmsh_files(reader, tmp_path, version, is_binary, count):
    content = gmsh_content(tmp_path, version, is_binary)
    # A file that does not start like this goes to the readers of the other formats, in a process.
    check_reader(content, reader("m.msh", read_mesh), count // 2, start=b"$MeshFormat")


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (GMSH_22, "\n3 1 1 0\n", "\n999999999 1 1 0\n"),
        (GMSH_22, "$Nodes\n5\n", "$Nodes\n999999999\n"),
        (GMSH_41, "\n3\n4\n5\n", "\n999999999\n4\n5\n"),
        (GMSH_41, "$Nodes\n1 5 1 5\n2 1 0 5\n", "$Nodes\n1 5 1 5\n2 1 0 999999999\n"),
        (GMSH_41, "\n2 2 2 2\n", "\n2 2 2 999999999\n"),
    ],
)
def test_one_number_does_not_cost_an_array_of_its_size(reader, text, old, new):
    assert text.replace(old, new, 1) != text
    assert read_all([text.replace(old, new, 1).encode()], reader("m.msh", read_mesh)) == 1


def test_a_long_name_of_a_section_does_not_cost_minutes(reader, tmp_path):
    """Which meshio would print in colours."""
    content = gmsh_content(tmp_path, "2.2", is_binary=True)
    assert read_all([content + b"$" + b"x" * 60_000 + b"\n"], reader("m.msh", read_mesh)) == 1


@pytest.mark.parametrize(
    ("suffix", "count"),
    [(".vtu", 2)]
    + [
        pytest.param(each, 8, marks=pytest.mark.slow) for each in (".vtk", ".node", ".inp", ".mesh")
    ],
)
def test_other_formats(reader, tmp_path, suffix, count):
    """In a process of their own, which takes half a second each."""
    mesh = box_mesh(3, 1)
    path = tmp_path / f"m{suffix}"
    meshio.Mesh(mesh.points, [("tetra", mesh.cells)]).write(path)
    read = reader(path.name, read_mesh)
    content = path.read_bytes()
    assert read_all([content], read) == 0
    rng = np.random.default_rng(1)
    read_all((damaged(content, rng) for _ in range(count)), read)


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
