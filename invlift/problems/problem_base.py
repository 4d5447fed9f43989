"""Base class of problems: their description and their posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, ClassVar


class ProblemBase:
    """Base class of problems; a subclass describes its parts by :meth:`lines`.

    Attributes
    ----------
    posterior_of : callable
        :func:`invlift.posterior_of`, set by the package: problems do not import runs and
        posteriors.
    """

    posterior_of: ClassVar[Callable]
    #: Defaults for problems without readings, fields and sensors.
    has_readings: ClassVar[bool] = False
    mesh = None
    sensors = None
    #: True if the model takes time steps that can be halved.
    has_time_steps: ClassVar[bool] = False

    def lines(self) -> list[tuple[str, str]]:
        """Return name and description of each part, in the order in which they are shown."""
        raise NotImplementedError

    def posterior(self, run: Any, *, exceedance: Sequence[float] = ()) -> Any:
        """Return the posterior from the draws of a run.

        Parameters
        ----------
        run : Run
            As :func:`invlift.sample` returns it, of this problem.
        exceedance : sequence of float
            Values of the conductivity, in its unit.  The probability of exceeding each is a field.

        Returns
        -------
        Posterior
            With mesh, sensors, noise and prior of the problem.

        Raises
        ------
        InputError
            If the run has no draws, or not those of this problem, or a value is not positive.
        """
        return type(self).posterior_of(self, run, exceedance=exceedance)

    def __str__(self) -> str:
        """Return a description of the problem, one line for each part."""
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:{width}}  {content}" for name, content in lines)

    def _repr_html_(self) -> str:
        """Return the same description as HTML, for notebooks."""
        rows = (f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self.lines())
        return f"<table>{''.join(rows)}</table>"
