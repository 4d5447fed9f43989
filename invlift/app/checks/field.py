"""Checks of the mesh of a field, its prior on the mesh, and the table of sensors."""

from __future__ import annotations

import numpy as np

from invlift.app.checks.electrodes import check_electrodes
from invlift.app.checks.findings import Finding
from invlift.app.checks.times import check_times
from invlift.app.problem.problem_file import ProblemSpec
from invlift.app.problems import AnyProblem
from invlift.app.runs.quantities import field_prior
from invlift.fem.fields.base import Nominal
from invlift.fem.mesh.checks import listing, place
from invlift.fem.mesh.geometry import find_cells
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.quality import mesh_quality
from invlift.fem.readings.sensors import Sensors
from invlift.problems.problem import InverseProblem

#: Fewest mesh widths across the range of the prior that resolve it, and fewest for which the field
#: has a correlation at all.
NODES_PER_RANGE, LEAST_PER_RANGE = 4.0, 0.5
#: Ratio of realised to requested standard deviation of the prior below which a note is given, and
#: below which the prior is wrong.
LOW_STD, LEAST_STD = 0.7, 0.3
#: Radius-ratio quality below which an element reduces the accuracy around it.
POOR_QUALITY = 0.1
#: Fewest positions for the check of their distances, and the share of an edge below which they are
#: too close.
FEWEST_PLACES, MUCH_CLOSER = 3, 0.1
#: Distance behind a facet at which other cells are searched, relative to the distance from the
#: centre of its cell.
BEHIND = 1e-3


def check_tables(problem: AnyProblem, spec: ProblemSpec | None) -> list[Finding]:
    """Check mesh, groups, electrodes and sensors, as far as they exist."""
    if problem.mesh is None:
        return []
    findings, sensors = [check_mesh(problem.mesh)], problem.sensors
    if spec is not None and spec.electrodes is None:
        findings.append(_groups(spec, problem.mesh))
    if sensors is not None and sensors.electrodes is not None:
        findings.append(check_electrodes(problem))
    if sensors is not None:
        findings += [
            check_sensors(problem, spec), *check_places(problem), *check_times(problem),
        ]  # fmt: skip
    return findings


def check_mesh(mesh: Mesh) -> Finding:
    """Check size and quality of a mesh, and whether it is connected."""
    quality = mesh_quality(mesh)
    poor = np.flatnonzero(quality < POOR_QUALITY)
    extent = " x ".join(f"{size:g}" for size in np.ptp(mesh.points, axis=0))
    detail = (
        f"{mesh.size}, extent {extent}; quality (1 is best) "
        f"worst {quality.min():.2f}, median {np.median(quality):.2f}"
    )
    if poor.size:
        detail += f"; {poor.size} slivers below {POOR_QUALITY}, the first is cell {poor[0]}"
    num_parts = int(mesh.components.max()) + 1
    if num_parts > 1:
        detail += f"; {num_parts} parts that share no node: nothing flows between them (merge the "
        detail += "nodes where they touch if it should)"
    unjoined = _unjoined_facets(mesh)
    if unjoined.size:
        centre = place(mesh.points[mesh.boundary_facets[unjoined[0]]].mean(axis=0))
        detail += f"; {unjoined.size} facets of the boundary with cells behind them, the first "
        detail += f"near {centre}: nothing flows there (both sides must have the same nodes)"
    detail = "; ".join([detail, *mesh.notes])
    is_note = poor.size or num_parts > 1 or unjoined.size or mesh.notes
    return Finding("note" if is_note else "ok", "mesh", detail)


def _unjoined_facets(mesh: Mesh) -> np.ndarray:
    """Return the boundary facets that geometrically have a cell on either side.

    They occur if nodes are duplicated, if one side has more nodes than the other, or if parts of
    the mesh overlap.
    """
    centres = mesh.points[mesh.boundary_facets].mean(axis=1)
    corners = mesh.cell_search.corners
    behind = centres + BEHIND * (centres - corners[mesh.boundary_cells].mean(axis=1))
    cells, _ = find_cells(mesh.cell_search, behind, 0.0)
    return np.flatnonzero(cells >= 0)


def _groups(spec: ProblemSpec, mesh: Mesh) -> Finding:
    used = {
        group
        for pde in spec.experiments.values()
        for group in (*pde.dirichlet, *pde.neumann, *pde.robin)
    }
    held = {tuple(facet) for group in used for facet in np.sort(mesh.facets(group), axis=1)}
    outer = {tuple(facet) for facet in np.sort(mesh.boundary_facets, axis=1)} - held
    detail = f"boundary conditions on {', '.join(sorted(used))}"
    if spec.experiment:
        detail += f", of experiments {', '.join(spec.experiment)}"
    if outer:
        share = len(outer) / len(mesh.boundary_facets)
        detail += f"; {100 * share:.0f} % of the boundary's facets are insulated"
    if mesh.subdomains:
        detail += f"; subdomains: {', '.join(sorted(mesh.subdomains))}"
    return Finding("ok", "groups", detail)


def check_sensors(problem: InverseProblem, spec: ProblemSpec | None) -> Finding:
    """Check the number of sensors, and unused or repeated parts of their table."""
    sensors = problem.sensors
    notes = _repeats(sensors)
    if spec and sensors.sigma is not None and spec.noise.sigma != "column":
        notes.append("the table's column sigma is not used, as [noise] sigma says otherwise")
    if spec and sensors.experiments is not None and not (spec.experiment or spec.survey):
        notes.append("the table's column experiment is not used, as there is no [experiment.NAME]")
    if spec and sensors.surveys is not None and not spec.survey:
        notes.append("the table's column survey is not used, as there is no [survey.NAME]")
    if sensors.outside:
        notes.append(sensors.outside)
    if spec and sensors.electrodes is None and (rows := _at_point_sources(problem, spec)):
        notes.append(
            f"row {rows[0]} reads within a cell of a point source, where the solution depends on "
            f"the size of the cells{f' (and {len(rows) - 1} more)' if rows[1:] else ''}: remove "
            "the row, or take a sensor farther from the source"
        )
    kinds = [] if sensors.kinds is None else sorted(set(sensors.kinds.tolist()))
    scale = problem.noise.scale
    if len(kinds) > 1 and scale.num_white and scale.groups is None:
        notes.append(f"readings of kinds {', '.join(kinds)} share one unknown noise scale")
    level = "note" if notes else "ok"
    notes += sensors.notes
    size = f"{len(sensors.values)} in use"
    if len(kinds) > 1:
        counts = [f"{np.count_nonzero(sensors.kinds == kind)} {kind}" for kind in kinds]
        size += f" ({', '.join(counts)})"
    return Finding(level, "sensors", "; ".join([size, *notes]))


def _repeats(sensors: Sensors) -> list[str]:
    """Return a note that names the rows which repeat a place, and what to do."""
    first = sensors.first_of_same()
    later = np.flatnonzero(first != np.arange(len(first)))
    if not later.size:
        return []
    what = "the place" if sensors.electrodes is None else "the electrodes"
    what += "" if sensors.times is None else " and time"

    def named(row: int) -> str:
        label = "" if sensors.labels is None else f" ({sensors.labels[row]})"
        return f"row {sensors.rows[row]}{label}"

    is_same = sensors.values[later] == sensors.values[first[later]]
    pairs = [
        f"{named(row)} that of {named(first[row])} with {'the same' if same else 'another'} value"
        for row, same in zip(later, is_same, strict=True)
    ]
    rows = "1 row repeats" if later.size == 1 else f"{later.size} rows repeat"
    remedy = "remove a row that was copied by mistake; " if is_same.any() else ""
    remedy += "each row counts as a measurement of its own"
    return [f"{rows} {what} of another: {listing(pairs, 3)} ({remedy})"]


def check_places(problem: AnyProblem) -> list[Finding]:
    """Return a finding if all sensors are much closer to each other than the nodes of the mesh."""
    if problem.mesh is None or problem.sensors is None:
        return []
    mesh, points = problem.mesh, problem.sensors.points
    points = np.unique(points[np.isfinite(points).all(axis=1)], axis=0)
    if len(points) < FEWEST_PLACES:
        return []
    cells, _ = find_cells(mesh.cell_search, points, 0.0)
    edges = edge_lengths(mesh, mesh.cells[cells[cells >= 0]])
    span, whole = (float(np.ptp(each, axis=0).max()) for each in (points, mesh.points))
    if not edges.size or span > MUCH_CLOSER * edges.min():
        return []
    detail = (
        f"they span {span:.3g}, {100 * span / whole:.2g} % of the mesh and less than a cell: is "
    )
    detail += "one in m and the other in mm or km? [mesh] unit and [units] length convert lengths"
    return [Finding("bad", "places of sensors", detail)]


def edge_lengths(mesh: Mesh, cells: np.ndarray) -> np.ndarray:
    """Return lengths of edges of cells, (k, dim + 1)."""
    corners = mesh.points[cells]
    return np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)


def _at_point_sources(problem: InverseProblem, spec: ProblemSpec) -> list[int]:
    """Return the rows of the table whose sensors are within about a cell of a point source.

    Only point sources of the experiment of the row count.
    """
    mesh, sensors, rows = problem.mesh, problem.sensors, set()
    is_of_u = np.full(len(sensors.rows), True)
    if sensors.kinds is not None:
        is_of_u = np.isin(sensors.kinds, ["point", "difference"])
    for name, pde in spec.experiments.items():
        is_own = is_of_u
        if spec.experiment:
            surveys = () if sensors.surveys is None else sensors.surveys
            names = [name, *(f"{name}_{survey}" for survey in {*surveys})]
            is_own = is_of_u & np.isin(sensors.experiments, names)
        for source in pde.point_source:
            width = np.sort(np.linalg.norm(mesh.points - source.place, axis=1))[mesh.dim]
            is_near = np.linalg.norm(sensors.points - source.place, axis=1) < width
            rows |= {*sensors.rows[is_own & is_near].tolist()}
    return sorted(rows)


def check_prior(problem: AnyProblem) -> list[Finding]:
    """Check that the prior of a field on its mesh is as requested; nothing without a field."""
    if problem.mesh is None:
        return []
    prior = field_prior(problem)
    std = prior.pointwise_std()  # 0 where the field is known
    parts = prior.nominal or [None]
    return [each for part in parts for each in _of_part(problem.mesh, std, part)]


def _of_part(mesh: Mesh, std: np.ndarray, part: Nominal | None) -> list[Finding]:
    """Check the prior of a layer, or of the whole body."""
    std = std[part.cells] if part is not None and part.layer else std
    if not std.any():  # the field is known everywhere
        return []
    low, middle, high = np.quantile(std[std > 0.0], [0.0, 0.5, 1.0])
    level, detail = "ok", "realised standard deviation of the log-conductivity "
    detail += f"{low:.3g} to {high:.3g}, median {middle:.3g}"
    if part is None:
        return [Finding(level, "prior", detail)]
    if part.std is not None:
        detail += f" (asked for {part.std:.3g})"
        if high > 1.3 * part.std and part.boundary == "neumann":
            level = "note"
            detail += "; the natural boundary inflates it near the edge: see [prior] boundary = "
            detail += '"robin"'
        elif middle < LOW_STD * part.std:
            level = "bad" if middle < LEAST_STD * part.std else "note"
            detail += "; far less than asked for: is the range in the mesh's unit of length?"
    of_layer = f" of {part.layer}" if part.layer else ""
    findings = [Finding(level, f"prior{of_layer}", detail)]
    return [*findings, _resolution(mesh, part, f"resolution{of_layer}")]


def _resolution(mesh: Mesh, part: Nominal, name: str) -> Finding:
    """Check that the mesh resolves the range of the prior."""
    length = part.correlation_range
    per_range = length / float(np.median(edge_lengths(mesh, mesh.cells[part.cells])))
    level, detail = "ok", f"{per_range:.2g} mesh widths across the prior's range of {length:.3g}"
    if per_range < LEAST_PER_RANGE:
        level = "bad"
        detail += ": the field has no range; is it in the mesh's unit of length?"
    elif per_range < NODES_PER_RANGE:
        level = "note"
        detail += f"; below {NODES_PER_RANGE:g} the mesh decides the field: refine it"
    return Finding(level, name, detail)
