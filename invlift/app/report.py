"""The report of a run: its page, and its draws as a series for ParaView."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from invlift.app.problem_file import ProblemSpec, read_problem
from invlift.app.results import mesh_of_run
from invlift.atomic import replace_on_success
from invlift.fem.mesh.mesh import Mesh
from invlift.posterior.files import Step, write_series
from invlift.posterior.names import FIELD
from invlift.posterior.report import Content, Group, gather, render
from invlift.tables import Table

PAGE, SERIES = "report.html", "draws.pvd"
#: All exterior facets, unless the mesh has a group of that name: see `Mesh.facets`.
ALL = "boundary"


def write_report(directory: str | os.PathLike, out: str | os.PathLike | None = None) -> list[Path]:
    """Write the report of a run from the files in its folder, finished or not.

    What the folder does not hold is left out, with a line of why. ``out`` says where to write the
    page, and nothing else. Otherwise the page goes to ``report.html`` in the folder and the draws
    that it shows to ``draws.pvd`` and ``draws/`` there; older files of these names are replaced.
    Returns the page, and ``draws.pvd`` if it was written.

    An InputError if the folder is not that of a run, or a file in it is damaged; an OSError if the
    page cannot be written. Files that were there before are not changed.
    """
    directory = Path(directory)
    content = gather(directory)
    groups, reason = _groups(content, directory / "problem.toml")
    missing = {**content.missing} if groups else {**content.missing, "groups": reason}
    content = replace(content, groups=groups, missing=missing)
    written = [directory / PAGE if out is None else Path(out)]
    page = render(content)
    with replace_on_success(written[0]) as temporary:
        temporary.write_text(page, encoding="utf-8")
    body, draws = content.body, content.draws
    if out is None and body is not None and draws is not None:
        written.append(directory / SERIES)
        is_nodal = f"{FIELD}_mean" in body.on_nodes
        fields = ({FIELD: values, "conductivity": np.exp(values)} for values in draws.values)
        steps = [Step(each, {}) if is_nodal else Step({}, each) for each in fields]
        write_series(written[-1], body.points, body.cells, steps)
    return written


def _groups(content: Content, problem: Path) -> tuple[tuple[Group, ...], str]:
    """Boundary groups of the mesh file; if none, why."""
    if content.body is None:
        return (), "There is no mesh to show them on."
    if not problem.exists():
        return (), "There is no problem.toml in the folder, which names them."
    spec = read_problem(problem)
    mesh = mesh_of_run(spec, content.body)
    if mesh is None:
        return (), "The mesh file is gone or has changed since the run: its groups are not shown."
    conditions = _conditions(spec)
    names = list(mesh.boundaries)
    if ALL in conditions and ALL not in names:
        names.insert(0, ALL)
    facets = {name: mesh.boundaries.get(name, mesh.boundary_facets) for name in names}
    groups = tuple(
        Group(name, facets[name], conditions.get(name) or _inherited(conditions, mesh, name))
        for name in names
        if len(facets[name])
    )
    return groups, "The mesh has no boundary groups."


def _conditions(spec: ProblemSpec) -> dict[str, str]:
    """What the problem says of each boundary group, in words, of each experiment."""
    found: dict[str, list[str]] = {}
    for experiment, pde in spec.experiments.items():
        of = f"{experiment}: " if experiment else ""
        words = {
            **{name: f"solution = {_said(value)}" for name, value in pde.dirichlet.items()},
            **{name: f"flux {_said(value)} into the body" for name, value in pde.neumann.items()},
            **{
                name: f"Robin, coefficient {_said(table.coefficient)}, "
                f"ambient {_said(table.ambient)}"
                for name, table in pde.robin.items()
            },
        }
        for name, text in words.items():
            found.setdefault(name, []).append(f"{of}{text}")
    return {name: "; ".join(texts) for name, texts in found.items()}


def _said(value) -> str:
    """A number, the name of a field, or what an unknown number is."""
    if isinstance(value, Table):
        parts = value.model_dump(exclude_none=True)
        name = parts.pop("distribution")
        return f"{name}({', '.join(f'{key} {part}' for key, part in parts.items())})"
    return value if isinstance(value, str) else f"{value:g}"


def _inherited(conditions: dict[str, str], mesh: Mesh, name: str) -> str:
    """What holds on a boundary group that the problem does not name."""
    outside = {tuple(row) for row in mesh.boundary_facets.tolist()}
    if not all(tuple(row) in outside for row in mesh.boundaries[name].tolist()):
        return "none, inside the body"
    if ALL in conditions and ALL not in mesh.boundaries:
        return f"that of {ALL}"
    return "none: nothing flows through"
