"""Damaged and invented files by the hundred thousand, for each of the parsers and for saved chains.

    python tests/benchmarks/stress_files.py [--count 100000] [--seed 0] [--only gmsh]

What the tests do with ten thousand: a file is read or refused in one line, within ten seconds and
a bounded amount of memory.  Half of the files are damaged copies of small ones made for tests, a
quarter damaged copies of those of the examples, a quarter made from a grammar by Hypothesis, which
must be installed beside the packages of the tests.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import meshio
import numpy as np
import tomli_w
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "app")]
from gmsh_texts import GMSH_22, GMSH_41
from problem_files import SENSORS, changed
from structured import box_mesh
from test_fuzz import WORDS, damaged, read_all

from invlift.app.problem.problem_file import read_problem
from invlift.fem.mesh.construction import read_mesh
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.saving import CheckpointStore, Fingerprint
from invlift.samplers.chains.state import Block, start_chain
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.tables.sensors import read_sensors

#: Files that are read between two lines on the terminal.
BATCH = 1000


def problems() -> tuple[list[bytes], list[bytes], st.SearchStrategy]:
    """Problem files: of tests, of examples, invented."""
    small = changed({"noise.sigma": {"distribution": "lognormal", "location": -1.0, "scale": 1.0}})
    real = [path.read_bytes() for path in sorted(ROOT.glob("examples/*/problem.toml"))]
    scalar = st.one_of(
        st.integers(), st.floats(), st.booleans(), st.text(max_size=20), st.datetimes(), st.times()
    )
    names = sorted({key for table in small.values() for key in table} | {"file", "x", "", "é"})
    value = st.recursive(
        scalar,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(names), inner, max_size=4)
        ),
        max_leaves=8,
    )

    def replaced(changes):
        tables = {name: dict(table) for name, table in small.items()}
        for table, key, new in changes:
            tables[table][key] = new
        return tomli_w.dumps(tables).encode(errors="replace")

    changes = st.tuples(st.sampled_from(sorted(small)), st.sampled_from(names), value)
    invented = st.lists(changes, min_size=1, max_size=3).map(replaced)
    return [tomli_w.dumps(small).encode()], real, invented


def tables() -> tuple[list[bytes], list[bytes], st.SearchStrategy]:
    """Sensor tables."""
    real = [path.read_bytes() for path in sorted(ROOT.glob("examples/*/sensors.csv"))]
    cell = st.one_of(
        st.floats(-2, 2).map(repr), st.floats().map(repr), st.integers().map(str), st.text()
    )
    header = st.permutations(["x", "y", "value", "name", "group"]).map(",".join)
    header = header | st.just("x,y,value") | st.text(max_size=20)
    rows = st.lists(st.lists(cell, min_size=2, max_size=5).map(",".join), max_size=6)
    invented = st.tuples(header, rows).map(
        lambda parts: "\n".join([parts[0], *parts[1]]).encode(errors="replace")
    )
    return [SENSORS.encode()], real, invented


def meshes() -> tuple[list[bytes], list[bytes], st.SearchStrategy]:
    """Gmsh's files, text and binary, of both versions."""
    small = [GMSH_22.encode(), GMSH_41.encode()]
    mesh = box_mesh(2, 2)
    points = np.column_stack([mesh.points, np.zeros(mesh.num_nodes)])
    with tempfile.TemporaryDirectory() as folder:
        for name in ("gmsh22", "gmsh"):
            path = Path(folder) / f"{name}.msh"
            meshio.write(path, meshio.Mesh(points, [("triangle", mesh.cells)]), name, binary=True)
            small.append(path.read_bytes())
    real = [(ROOT / "meshes" / "disc.msh").read_bytes()]
    words = st.one_of(
        st.integers(-1, 12).map(str),
        st.integers().map(str),
        st.floats().map(repr),
        st.sampled_from([word.decode("latin-1") for word in WORDS]),
    )

    def rewritten(parts):
        text, changes = parts
        lines = text.split("\n")
        for at, words in changes:
            line = lines[at % len(lines)].split(" ")
            line[at // len(lines) % len(line)] = words
            lines[at % len(lines)] = " ".join(line)
        return "\n".join(lines).encode("latin-1", errors="replace")

    changes = st.lists(st.tuples(st.integers(0, 10_000), words), min_size=1, max_size=5)
    invented = st.tuples(st.sampled_from([GMSH_22, GMSH_41]), changes).map(rewritten)
    return small, real, invented


def pieces() -> tuple[list[bytes], list[bytes], st.SearchStrategy]:
    """Saved chains; invented ones have an intact checksum or none."""
    with tempfile.TemporaryDirectory() as folder:
        store, plan = _store(Path(folder)), _PLAN
        contents = []
        state = start_chain(plan, np.arange(5.0))
        for iteration, is_warmup in ((10, True), (20, True), (25, False)):
            num = 10 if is_warmup else 5
            draws = {} if is_warmup else {"x": np.arange(5.0), "field": np.ones((5, 7))}
            stats = {"step_size": np.arange(float(num))}
            block = Block(
                state.position._replace(iteration=iteration), num, is_warmup, draws, stats, {}
            )
            store.save(0, state, [state.add(plan, block)])
            path = Path(folder) / f"chain-0-{iteration:08d}.piece"
            contents.append(path.read_bytes())
    first = contents[0].partition(b"\n")
    invented = st.tuples(st.sampled_from([first[0] + b"\n", b"", b"\n"]), st.binary(max_size=400))
    return contents[:1], contents[1:], invented.map(b"".join)


_PLAN = Plan(ConstrainedHMC(), 20, 5, fields=("field",), max_field_bytes=1000)


def _store(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, Fingerprint("chmc", 20, 5, "0" * 64))


def _load(path: Path) -> None:
    if _store(path.parent).load(0, _PLAN) is None:
        raise AssertionError("a chain that is there was not found")


#: By name: the files, how one of them is called, and what reads it.
PARSERS: dict[str, tuple[Callable, str, Callable]] = {
    "problem": (problems, "p.toml", read_problem),
    "sensors": (tables, "s.csv", lambda path: read_sensors(path, 2)),
    "gmsh": (meshes, "m.msh", read_mesh),
    "pieces": (pieces, "chain-0-00000010.piece", _load),
}


def contents_of(name: str, rng: np.random.Generator) -> Iterator[bytes]:
    """Files without end, as the head of this module says."""
    small, real, invented = PARSERS[name][0]()
    for number in itertools.count():
        if number % 4 == 3:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that examples are not made for this
                yield invented.example()
        else:
            kind = real if number % 4 == 2 else small
            yield damaged(kind[rng.integers(len(kind))], rng)


def main() -> None:
    """Read them all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000, help="files for each parser")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(PARSERS), action="append")
    parsed = parser.parse_args()
    for name in parsed.only or PARSERS:
        _, file_name, read = PARSERS[name]
        rng = np.random.default_rng(parsed.seed)
        contents = contents_of(name, rng)
        began, done, refused = time.monotonic(), 0, 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file_name

            def read_content(content, path=path, read=read):
                path.write_bytes(content)
                read(path)

            while done < parsed.count:
                batch = list(itertools.islice(contents, min(BATCH, parsed.count - done)))
                refused += read_all(batch, read_content)
                done += len(batch)
                minutes = (time.monotonic() - began) / 60
                print(f"{name}: {done} files, {refused} refused, {minutes:.1f} min", flush=True)


if __name__ == "__main__":
    main()
