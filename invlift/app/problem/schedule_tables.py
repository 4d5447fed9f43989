"""Numbers of a problem file that change in time."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from invlift.app.problem.run_tables import SIZE, AbsolutePath
from invlift.errors import InputError, told_at
from invlift.fem.time.clock import SECONDS, Clock, date_of, read_times
from invlift.fem.time.schedules import Steps, read_steps, steps
from invlift.files.tables import Table, number, problem

_Number = number(-SIZE, SIZE)
_Date = Annotated[str, Field(min_length=8)]
_Pair = Annotated[list[_Number | _Date], Field(min_length=2, max_length=2)]
#: A unit of time.
TimeUnit = Literal[tuple(SECONDS)]


class StepsTable(Table):
    """A number that changes in time, in steps."""

    known_by: ClassVar[tuple[str, ...]] = ("steps", "schedule")

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

    @model_validator(mode="after")
    def _has_one_of_both(self) -> StepsTable:
        given = [key for key in ("steps", "schedule") if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "neither"
            raise problem("steps or schedule", found, "give one of the two")
        if self.time_unit is not None and self.schedule is None:
            remedy = "give steps in the unit of [pde] time_unit"
            raise problem("time_unit beside schedule alone", "steps with one", remedy)
        return self

    def build(self, where: str, clock: Clock) -> Steps:
        """Return the steps; an InputError if they are none."""
        if self.schedule is not None:
            return read_steps(self.schedule, self.before, clock._replace(written=self.time_unit))
        times, values = ([pair[k] for pair in self.steps] for k in (0, 1))
        with told_at(partial(_inside, where)):
            if any(isinstance(time, str) for time in times):
                places = [f"steps, row {row}" for row in range(1, len(times) + 1)]
                times = read_times(list(map(str, times)), places, clock)
            return steps(list(zip(times, values, strict=True)), self.before)


def _inside(where: str, place: str) -> str:
    """Where an error is that the library tells of steps; what it tells of a clock stays."""
    return where + place.removeprefix("steps") if place.startswith("steps") else place


class ClockTable(Table):
    """Keys that say what times mean."""

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
        """What times of tables mean."""
        return Clock(self.time_unit, self.start and date_of(self.start, "start"))
