"""Sections of a problem file: names, types, defaults and ranges of their keys.

The tables of priors, noises and kernels are in other modules, those of sampler and output in
`run_tables`. Lengths are in the unit of the mesh, solutions in the unit of the sensor table.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from invlift.app.problem.run_tables import SIZE, AbsolutePath, OutputTable, SamplerTable
from invlift.app.problem.schedule_tables import ClockTable, ScheduleTable, TimeUnit
from invlift.fem.mesh.finer_mesh import MAX_TIMES
from invlift.files.tables import Table, integer, number, one_of, problem
from invlift.tables.distributions import DISTRIBUTIONS, REAL_DISTRIBUTIONS, LognormalTable
from invlift.tables.noise import NOISES
from invlift.tables.priors import BOUNDARY_DISTRIBUTIONS, PRIORS
from invlift.units import factor_between

#: The solution is not refined but corrected near the mode.
AT_MODE = "mode"
_Name = Annotated[str, Field(min_length=1)]
_Number, _Positive = number(-SIZE, SIZE), number(1 / SIZE, SIZE)
#: A number, a distribution if it is unknown, or steps or an expression if it changes in time.
_Unknown = _Number | _Name | one_of(REAL_DISTRIBUTIONS, "distribution", other=ScheduleTable)


class MeshTable(Table):
    """[mesh]: the body."""

    file: AbsolutePath
    """The mesh file, relative to the problem file or absolute."""
    facets: AbsolutePath = None
    """A second file with the tags of the facets, as FEniCS has them, for example
    facets = "facets.xdmf": boundary groups go by these numbers."""
    unit: _Name = None
    """The unit of the file's coordinates, for example unit = "mm": they are converted to that of
    [units], or to m."""
    boundaries: dict[_Name, _Name] = {}
    """Boundary groups that you define here, by a condition on the centres of facets,
    for example boundaries = { left = "x < 0.001", top = "y > 0.5 and x > 1" }."""
    subdomains: dict[_Name, _Name] = {}
    """Subdomains that you define here, by a condition on the centres of cells, for
    example subdomains = { clay = "y < 10" }, or on a field of the file, "marker == 2"."""
    refine_solution: integer(0, MAX_TIMES) | Literal[AT_MODE] = 0
    """How often each edge of the mesh is halved for the solution, while the unknown field stays on
    the mesh as it is. Or "mode": readings are corrected for the mesh's error near the most probable
    field, and a step of the sampler takes no longer."""


class RobinTable(Table):
    """A Robin condition: conductivity * du/dn = coefficient * (ambient - u) on a boundary group."""

    coefficient: _Positive | _Name | one_of(DISTRIBUTIONS, "distribution")
    """The transfer coefficient, in conductivity over length, for a fixed flux use neumann: a
    number, the name of a point field of the mesh file, or an expression in x, y and z."""
    ambient: _Number | _Name | one_of(REAL_DISTRIBUTIONS, "distribution", other=ScheduleTable) = 0.0
    """The solution far outside, in its unit: a number, the name of a point field of the mesh file,
    or an expression in x, y, z and t."""


class PointSourceTable(Table):
    """What enters the body at one place, a well or a heater."""

    place: Annotated[list[_Number], Field(min_length=2, max_length=3)]
    """The coordinates, in the length unit of the mesh, for example place = [1.0, 2.5]."""
    strength: _Unknown
    """The strength, in conductivity times solution times length^(dimension - 2): negative for a
    pumped well if u is a head, positive if u is a drawdown. In time also an expression in t, for
    example "-0.003 * exp(-t / 600)"."""


class ConditionsTable(Table):
    """Source and boundary conditions of -div(conductivity grad u) = source.

    Where a boundary has no condition, nothing flows through it.  A distribution in place of a
    number makes it one more unknown.
    """

    source: _Unknown | Annotated[dict[str, _Unknown], Field(min_length=1)] = 0.0
    """The source, in conductivity times solution over squared length, for example source = 100.0:
    a number, one for each subdomain, the name of a field of the mesh file, or an expression in x,
    y, z and t."""
    dirichlet: dict[
        str, _Number | _Name | one_of(BOUNDARY_DISTRIBUTIONS, "distribution", other=ScheduleTable)
    ] = {}
    """The solution on boundary groups, in its unit, for example dirichlet = { boundary = 0.0 }: a
    number, the name of a point field of the mesh file, or an expression in x, y, z and t, for
    example dirichlet = { left = "12.5 - 0.002 * y" }."""
    neumann: dict[
        str, _Number | _Name | one_of(REAL_DISTRIBUTIONS, "distribution", other=ScheduleTable)
    ] = {}
    """The flux conductivity * du/dn into the body through boundary groups, in conductivity times
    solution over length, for example neumann = { inflow = 1.5 }: a number, the name of a point
    field of the mesh file, or an expression in x, y, z and t."""
    robin: dict[str, RobinTable] = {}
    """The Robin conditions on boundary groups, for example
    robin = { surface = { coefficient = 10.0, ambient = 20.0 } }."""
    point_source: list[PointSourceTable] = []
    """The point sources, each a table: [[pde.point_source]], of an experiment
    [[experiment.NAME.point_source]]."""

    @model_validator(mode="after")
    def _has_one_condition_for_each_group(self) -> ConditionsTable:
        _check_groups(self)
        return self


class StorageField(Table):
    """A storage that is a field of its own."""

    known_by: ClassVar[tuple[str, ...]] = ("field",)

    field: one_of(PRIORS, "kind")
    """The prior of its logarithm, with the keys of [prior], for example
    field = { kind = "matern", range = 20.0, std = 1.0, smoothness = 1.0, median = 1e-4 }."""


class AnisotropyTable(Table):
    """A conductivity that depends on direction, everywhere in the same way."""

    ratio: number(1e-6, 1e6) | one_of(DISTRIBUTIONS, "distribution")
    """The conductivity along the direction over that across; in space the horizontal one over the
    vertical one."""
    angle: number(-360.0, 360.0) | one_of(REAL_DISTRIBUTIONS, "distribution") = None
    """The angle between the direction and the x axis, in degrees. Only for bodies in the plane."""


class PdeTable(ConditionsTable, ClockTable):
    """[pde]: -div(conductivity grad u) = source with its boundary conditions.

    Where a boundary has no condition, nothing flows through it.  A distribution in place of a
    number makes it one more unknown.
    """

    storage: (
        _Positive
        | one_of(DISTRIBUTIONS, "distribution", other=StorageField)
        | Annotated[dict[_Name, _Positive], Field(min_length=1)]
    ) = None
    """The storage S of a field that changes in time, S du/dt - div(conductivity grad u) = source,
    in conductivity times time over squared length: a number, one for each subdomain, the
    distribution of an unknown number, or a field of its own, [pde.storage.field]. The sensor table
    then has a column time, and numbers of this section may be steps,
    { steps = [[0.0, -0.003], [5400.0, 0.0]] }, or the name of a table of steps,
    { schedule = "rates.csv" }."""
    thickness: _Positive | Annotated[dict[_Name, _Positive], Field(min_length=1)] | _Name = None
    """The thickness of a plane body, in the unit of length: a number, one for each subdomain, the
    name of a field of the mesh file, or an expression in x and y, for example
    thickness = "10 + 0.02 * x". The strength of a point source is then the total over the
    thickness."""
    anisotropy: AnisotropyTable = None
    """A conductivity that depends on direction, for example
    anisotropy = { ratio = 3.0, angle = 30.0 }: the field is that along the angle. Distributions, if
    the ratio or the angle is unknown."""
    lines: dict[_Name, _Positive | one_of(DISTRIBUTIONS, "distribution")] = {}
    """The lines along which it flows more easily, fractures for example, of a plane body: the
    conductivity times the width of each, for example lines = { fracture = 2e-4 }, by the groups of
    their edges in the mesh, which may be inside the body."""
    barriers: dict[_Name, _Positive | one_of(DISTRIBUTIONS, "distribution")] = {}
    """The barriers that little flows through, sealed faults or cut-off walls for example: the width
    by the conductivity of each, for example barriers = { wall = 1e5 }, by the groups of their
    facets in the mesh, which are inside the body."""
    initial: _Number | Literal["steady"] = "steady"
    """The field before anything changes, in the unit of the solution: the steady one of the
    conditions before their first step; or a number, which the field is everywhere at time 0, when
    all conditions begin."""


def _check_groups(pde: ConditionsTable, where: str = "") -> None:
    """Check that no boundary group has two conditions."""
    kinds = {"dirichlet": pde.dirichlet, "neumann": pde.neumann, "robin": pde.robin}
    for group in {**pde.dirichlet, **pde.neumann, **pde.robin}:
        given = [kind for kind, groups in kinds.items() if group in groups]
        if len(given) > 1:
            raise problem(
                expected="one condition for each boundary group",
                found=f"{' and '.join(given)} for {group!r}{where}",
                remedy="keep one of them (a Robin condition contains a flux: "
                "coefficient * ambient)",
            )


class ElectrodesTable(Table):
    """[electrodes]: where currents enter and potentials are read, in the place of [pde].

    Contacts on the boundary (complete electrode model), or points of the ground.
    """

    groups: Annotated[list[_Name], Field(min_length=2)] | _Name = None
    """The boundary groups of the electrodes, in the order of their numbers, for example
    groups = ["north", "east", "south"], or a pattern that their names have, "electrode_*"."""
    width: _Positive = None
    """The width of each electrode, in the length unit of the mesh, where the table of readings says
    in the unified data format where they are: it has the boundary facets whose middles are within
    half of it."""
    surface: _Name = None
    """The boundary group of the ground's surface, where electrodes are points whose positions the
    table of readings has: the ground goes on beyond the rest of the boundary. In the plane they
    are a line, and across it the conductivity is the same."""
    impedance: (
        _Positive
        | Annotated[list[_Positive], Field(min_length=2)]
        | one_of(DISTRIBUTIONS, "distribution")
    ) = None
    """The contact impedance, in length over conductivity: a number, a list of one for each
    electrode, or the distribution of one, of which each electrode has a value of its own. Points
    have none."""

    @model_validator(mode="after")
    def _says_where_they_are(self) -> ElectrodesTable:
        given = self.given_of("groups", "width", "surface")
        if len(given) != 1:
            remedy = "name boundary groups, or give the width of electrodes whose positions the "
            remedy += "table of readings has, or the surface of the ground on which they are points"
            expected = "one of groups, width and surface"
            raise problem(expected, " and ".join(given) or "none", remedy)
        if (self.impedance is None) == (self.surface is None):
            expected = "impedance with groups or width, and none with surface"
            found = "none" if self.impedance is None else "both impedance and surface"
            raise problem(expected, found, "give the contact impedance of electrodes with an area")
        return self


class ConductivityTable(Table):
    """[conductivity]: where the conductivity is known."""

    known: dict[_Name, _Positive] = {}
    """The conductivity of subdomains in which it is known, in its unit, for example
    known = { steel = 50.0 }: it is unknown elsewhere, and a node on the border is not known."""


class ExperimentTable(ConditionsTable):
    """[experiment.NAME]: what one of several experiments has in place of the keys of [pde].

    The readings of each are the rows of the sensor table with its name in the column experiment.
    """

    def over(self, pde: PdeTable) -> PdeTable:
        """Return source and boundary conditions of the experiment."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        return pde.model_copy(update=given)


class SurveyTable(Table):
    """[survey.NAME]: what has changed at one of several dates (time lapse).

    The readings of each are the rows of the table with its name in the column survey.
    """

    change: one_of(PRIORS, "kind")
    """The prior of the change of the log-conductivity, with the keys of [prior], for example
    change = { kind = "matern", range = 0.5, std = 0.3, smoothness = 1.0 }."""


class ReferenceTable(Table):
    """Readings of a reference body between the same electrodes: its conductivity is one number."""

    file: AbsolutePath
    """The table of its readings, with the currents and pairs of electrodes of that of the body."""
    columns: Annotated[dict[_Name, _Name], Field(min_length=1)] = {}
    """The columns of this table by what they are, as those of [observations]."""
    conductivity: _Positive | one_of({"lognormal": LognormalTable}, "distribution")
    """Its conductivity: a number, or a lognormal distribution if it is unknown."""


class ObservationsTable(Table):
    """[observations]: the sensor table and what to do with sensors outside the mesh."""

    file: Annotated[list[AbsolutePath], Field(min_length=1)] | AbsolutePath
    """The sensor table, relative to the problem file or absolute. One file of each well or logger
    is a list, file = ["a.csv", "b.csv"], or a pattern, "loggers/*.csv": the sensor of a table
    without a column name has the name of the file without its ending. Voltages between electrodes
    may be in several files of one measurement as well."""
    columns: Annotated[dict[_Name, _Name], Field(min_length=1)] = {}
    """The names of columns in the table, where they differ from x, value, time and so on, for
    example columns = { value = "Temp*", time = "Date Time*" }: a star is any text. Several columns
    of values are those of several sensors. The name of each sensor is the text at the star."""
    places: AbsolutePath = None
    """A table of the places by name, for example places = "wells.csv", where the sensor table has
    none: both have a column name."""
    time_unit: TimeUnit = None
    """The unit of the times of the sensor table, where it is not the one of [pde] and not in its
    header, time [min]."""
    outside: Literal["error", "project", "drop"] = "error"
    """What to do with sensors outside the mesh: refuse, move onto it, or leave out."""
    reference: ReferenceTable = None
    """Voltages of a reference body that are subtracted, such as those of a tank before objects were
    put in: [observations.reference]. Sigma is then that of the differences."""
    offset: dict[_Name, one_of(REAL_DISTRIBUTIONS, "distribution")] = {}
    """An unknown number that is added to all readings of a group, in their unit, for example
    offset = { loggers = { distribution = "normal", mean = 0.0, sd = 0.3 } }. The column group of
    the table has the groups. Examples are the drift of a logger and an unknown datum. With
    [electrodes] the names pair, injection and electrode are no groups: each pair of electrodes that
    is read, each current that is driven or each electrode then has an offset of its own."""


def _is_length(unit: str) -> str:
    if factor_between(unit, "m") is None:
        expected, remedy = "a unit of length", "write mm, cm, m, km or ft, for example"
        raise problem(expected, repr(unit), remedy)
    return unit


class UnitsTable(Table):
    """[units]: the units of all numbers. Columns in others are converted; without, nothing is."""

    length: Annotated[_Name, AfterValidator(_is_length)] = "m"
    """The unit of length, for example length = "m": columns of coordinates in another unit,
    "x [mm]", are converted."""
    solution: _Name = None
    """The unit of the solution, for example solution = "degC": readings of it in another unit,
    "value [mV]", are converted, and results have it."""
    conductivity: _Name = None
    """The unit of the conductivity, for example conductivity = "W/(m K)", that pictures and results
    have: readings of kind conductivity are converted to it."""


class Sections(Table):
    """All sections of a problem file."""

    mesh: MeshTable
    """The mesh, for example file = "body.msh"."""
    pde: PdeTable = None
    """The equation, for example source = 100.0, dirichlet = { boundary = 0.0 }."""
    experiment: dict[_Name, ExperimentTable] = {}
    """The experiments, if there were several on the body. Each has a name, of letters and digits,
    and those keys that differ from [pde], for example
    [experiment.left] neumann = { left = 1.0 }."""
    survey: dict[_Name, SurveyTable] = {}
    """The surveys before which the field has changed (time lapse). Their names, of letters and
    digits, stand in the column survey of the sensor table. A survey without a table [survey.NAME]
    has the field of [prior]. For example
    [survey.after] change = { kind = "matern", range = 0.5, std = 0.3, smoothness = 1.0 }."""
    electrodes: ElectrodesTable = None
    """Electrodes in the place of [pde], for example groups = "electrode_*", impedance = 0.05, or
    surface = "ground"."""
    units: UnitsTable = None
    """The units, for example length = "m", solution = "degC"."""
    conductivity: ConductivityTable = ConductivityTable()
    """What is known of the conductivity, for example known = { steel = 50.0 }."""
    prior: one_of(PRIORS, "kind")
    """The prior, for example kind = "matern", range = 1.0, std = 1.0, smoothness = 2.0."""
    observations: ObservationsTable
    """The sensor table, for example file = "sensors.csv"."""
    noise: one_of(NOISES, "kind", default="gaussian") = Field({}, validate_default=True)
    """The noise, for example sigma = 0.01."""
    sampler: SamplerTable = SamplerTable()
    """The sampler, for example draws = 1000."""
    output: OutputTable = Field({}, validate_default=True)
    """The output, for example dir = "results"."""

    @model_validator(mode="after")
    def _has_one_equation(self) -> Sections:
        if (self.pde is None) == (self.electrodes is None):
            found = "neither" if self.pde is None else "both"
            remedy = "give the sources and boundary conditions, or the electrodes"
            raise problem("a table [pde], or [electrodes] in its place", found, remedy)
        others = {
            "[experiment.NAME]": self.experiment,
            "[observations] places": self.observations.places,
            "[units]": self.units,
        }
        found = next((each for each, given in others.items() if given), None)
        if self.observations.reference and not (self.electrodes and not self.electrodes.surface):
            remedy = "remove it, or name the electrodes: groups or width"
            raise problem("[electrodes] with an area", "[observations.reference]", remedy)
        if self.electrodes is not None and found:
            expected = "[electrodes] without this table, as the readings name the electrodes"
            raise problem(expected, found, "remove one of them")
        return self

    @model_validator(mode="after")
    def _has_a_storage_if_it_is_in_time(self) -> Sections:
        pde = self.pde or PdeTable()
        of_time = {
            "[output] times": self.output.times,
            "[observations] time_unit": self.observations.time_unit,
            "[pde] initial": pde.initial != "steady",
            "[pde] time_unit": pde.time_unit,
            "[pde] start": pde.start,
        }
        found = [key for key, value in of_time.items() if value]
        if found and pde.storage is None:
            remedy = "give it, or leave these out"
            raise problem("[pde] storage, where the field changes in time", found[0], remedy)
        return self

    @model_validator(mode="after")
    def _has_experiments_and_surveys_that_fit(self) -> Sections:
        names = [(name, name, "experiments", "solution") for name in self.experiment]
        names += [(name, f"_{name}", "surveys", "change") for name in self.survey]
        for name, end, kind, field in names:
            if not end.isidentifier():
                remedy = f"rename it: results have a field {field}_NAME"
                raise problem(f"names of letters and digits for {kind}", repr(name), remedy)
        for name, experiment in self.experiment.items():
            _check_groups(experiment.over(self.pde), f" of experiment {name}, with those of [pde]")
        return self

    @property
    def experiments(self) -> dict[str, PdeTable]:
        """Source and boundary conditions by experiment; a single experiment has the name ""."""
        experiments = {name: each.over(self.pde) for name, each in self.experiment.items()}
        return experiments or {"": self.pde}
