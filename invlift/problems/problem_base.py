"""What a person asks of any problem: what it is made of, and its posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, ClassVar


class ProblemBase:
    """Base of problems: a subclass says what it is made of.

    Attributes
    ----------
    posterior_of : callable
        :func:`invlift.posterior_of`, which the package hands over: a problem knows nothing of runs
        and posteriors.
    """

    posterior_of: ClassVar[Callable]
    #: Whether there are readings, and where fields and sensors are; what a subclass does not know.
    has_readings: ClassVar[bool] = False
    mesh = None
    sensors = None
    #: Whether the model takes steps in time, that can be halved.
    has_time_steps: ClassVar[bool] = False

    def lines(self) -> list[tuple[str, str]]:
        """What each part is called and what it is, in the order of reading."""
        raise NotImplementedError

    def posterior(self, run: Any, *, exceedance: Sequence[float] = ()) -> Any:
        """The posterior that the draws of a run are of.

        Parameters
        ----------
        run : Run
            As :func:`invlift.sample` returns it, of this problem.
        exceedance : sequence of float
            Values of the conductivity, in its unit: the probability of being above each is a field.

        Returns
        -------
        Posterior
            With the mesh, the sensors, the noise and the prior that the problem knows.

        Raises
        ------
        InputError
            If the run has no draws, or not those of this problem, or a value is not positive.
        """
        return type(self).posterior_of(self, run, exceedance=exceedance)

    def __str__(self) -> str:
        """Return what the problem is made of, a line for each part."""
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:{width}}  {content}" for name, content in lines)

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        rows = (f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self.lines())
        return f"<table>{''.join(rows)}</table>"
