"""What a person asks of any problem: what it is made of, and its posterior."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors: a problem knows nothing of what is made of it
    from invlift.posterior.posterior import Posterior
    from invlift.samplers.chains.results import Run


class ProblemBase:
    """Base of problems: a subclass says what it is made of."""

    def lines(self) -> list[tuple[str, str]]:
        """What each part is called and what it is, in the order of reading."""
        raise NotImplementedError

    def posterior(self, run: Run) -> Posterior:
        """The posterior that the draws of a run are of.

        Parameters
        ----------
        run : Run
            As :func:`invlift.sample` returns it, of this problem.

        Returns
        -------
        Posterior
            With the mesh, the sensors, the noise and the prior that the problem knows.

        Raises
        ------
        InputError
            If the run has no draws, or not those of this problem.
        """
        # A person calls it on a problem, which knows nothing of posteriors.
        from invlift.app.runs.results import build_posterior

        return build_posterior(self, run)

    def __str__(self) -> str:
        """Return what the problem is made of, a line for each part."""
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:{width}}  {content}" for name, content in lines)

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        rows = (f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self.lines())
        return f"<table>{''.join(rows)}</table>"
