"""Tables of values that change in time, and of units of time and dates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from invlift.app.problem.run_tables import SIZE, AbsolutePath
from invlift.errors import InputError, KeyPath, errors_at
from invlift.fem.time.schedules import Schedule, oscillation, steps
from invlift.files.tables import Table, number, problem
from invlift.tables.dates import date_of
from invlift.tables.times import SECONDS, Clock, read_steps, read_times

_Number = number(-SIZE, SIZE)
_Date = Annotated[str, Field(min_length=8)]
_Pair = Annotated[list[_Number | _Date], Field(min_length=2, max_length=2)]
_Cosine = Annotated[list[_Number | _Date], Field(min_length=3, max_length=3)]
#: A unit of time.
TimeUnit = Literal[tuple(SECONDS)]


class ScheduleTable(Table):
    """A number that changes in time, in steps or as an oscillation."""

    known_by: ClassVar[tuple[str, ...]] = ("steps", "schedule", "periodic")

    steps: Annotated[list[_Pair], Field(min_length=1)] = None
    """Times, in the unit of time of the equation or dates, and the number from then on, for example
    steps = [[0.0, -0.003], [5400.0, 0.0]], or [["2011-05-01T08:00:00", -0.003]]."""
    schedule: AbsolutePath = None
    """A table with the columns time and strength, in the place of steps."""
    time_unit: TimeUnit = None
    """The unit of the times of that table, where it is not the one of [pde] and not in its header,
    time [min]."""
    before: _Number = 0.0
    """What the number was before the first step, when the field was steady."""
    periodic: Annotated[list[_Cosine], Field(min_length=1)] = None
    """In the place of steps, cosines that have oscillated for long: of each the period, the
    amplitude and a time or date of its maximum, for example periodic = [[600.0, 0.003, 0.0]]."""
    mean: _Number = 0.0
    """What a number that is periodic oscillates about."""

    @model_validator(mode="after")
    def _has_one_of_these(self) -> ScheduleTable:
        given = self.given_of(*self.known_by)
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise problem("steps, schedule or periodic", found, "give one of these")
        other = "before" if given == ["periodic"] else "mean"
        if getattr(self, other) != 0.0:  # the saved file of a run has both, one of them 0
            remedy = "mean is that of periodic, and before that of steps and schedule"
            raise problem(f"no {other} beside {given[0]}", other, remedy)
        if self.time_unit is not None and self.schedule is None:
            remedy = "give steps in the unit of [pde] time_unit"
            raise problem("time_unit beside schedule alone", "steps with one", remedy)
        return self

    def build(self, where: str, clock: Clock, unit: str) -> Schedule:
        """Build the schedule of the value, whose unit is ``unit``, or "" if that is not known.

        Raises
        ------
        InputError
            If times or values are not valid.
        """
        if self.schedule is not None:
            of_table = clock._replace(written=self.time_unit)
            return read_steps(self.schedule, self.before, of_table, unit)
        with errors_at(partial(_inside, where)):
            if self.periodic is not None:
                periods, amplitudes, peaks = zip(*self.periodic, strict=True)
                peaks = _times(peaks, "periodic", clock)
                return oscillation(list(zip(periods, amplitudes, peaks, strict=True)), self.mean)
            times, values = zip(*self.steps, strict=True)
            times = _times(times, "steps", clock)
            return steps(list(zip(times, values, strict=True)), self.before)


def _times(given: Sequence, name: str, clock: Clock) -> Sequence:
    """Return times as numbers, if some of them are dates; else unchanged."""
    if not any(isinstance(time, str) for time in given):
        return given
    places = [(name, f"row {row}") for row in range(1, len(given) + 1)]
    return read_times(list(map(str, given)), places, clock)


def _inside(where: str, path: KeyPath) -> KeyPath:
    """Return the key path of a row of this value; other paths are unchanged."""
    return (where, *path[1:]) if path[0] in ("steps", "periodic") else path


class ClockTable(Table):
    """Keys of the unit of time and the date of time 0."""

    time_unit: TimeUnit = None
    """The unit of time of the equation: of the storage, of steps and of results. Needed where a
    table is in another unit or has dates."""
    start: _Date = None
    """The date of time 0, where tables have dates, in ISO 8601 with the offset of their zone from
    UTC, for example start = "2011-05-01T00:00:00+02:00": it is that of all dates without one."""

    @field_validator("start")
    @classmethod
    def _is_a_date(cls, start: str | None) -> str | None:
        try:
            date_of(start, "start")
        except InputError as error:
            raise problem(error.expected, error.found, error.remedy) from None
        return start

    @property
    def clock(self) -> Clock:
        """Unit of time and start date, to read times of tables."""
        return Clock(self.time_unit, self.start and date_of(self.start, "start"))
