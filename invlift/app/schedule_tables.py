"""Numbers of a problem file that change in time."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from invlift.app.run_tables import SIZE, AbsolutePath
from invlift.errors import told_at
from invlift.fem.time.schedules import Steps, read_steps, steps
from invlift.files.tables import Table, number, problem

_Number = number(-SIZE, SIZE)
_Pair = Annotated[list[_Number], Field(min_length=2, max_length=2)]


class StepsTable(Table):
    """A number that changes in time, in steps."""

    known_by: ClassVar[tuple[str, ...]] = ("steps", "schedule")

    steps: Annotated[list[_Pair], Field(min_length=1)] = None
    """Times, in the unit of the readings' times, and the number from then on, for example
    steps = [[0.0, -0.003], [5400.0, 0.0]]."""
    schedule: AbsolutePath = None
    """A table with the columns time and strength, in the place of steps."""
    before: _Number = 0.0
    """What the number was before the first step, when the field was steady."""

    @model_validator(mode="after")
    def _has_one_of_both(self) -> StepsTable:
        given = [key for key in ("steps", "schedule") if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "neither"
            raise problem("steps or schedule", found, "give one of the two")
        return self

    def build(self, where: str) -> Steps:
        """Return the steps; an InputError if they are none."""
        if self.schedule is not None:
            return read_steps(self.schedule, self.before)
        with told_at(lambda place: where + place.removeprefix("steps")):
            return steps(self.steps, self.before)
