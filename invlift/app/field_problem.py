"""Problems as a person hands them over, and what is on a mesh among them."""

from __future__ import annotations

from dataclasses import dataclass

from invlift.app.runs.quantities import mesh_of, quantities_of
from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.sensors import Sensors
from invlift.posterior.statistics.quantity import Quantity
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.problems.problem_base import ProblemBase
from invlift.unknowns.priors.base import Prior
from invlift.unknowns.priors.named import NamedPrior


@dataclass(frozen=True)
class FieldProblem(ProblemBase):
    """An inverse problem for a field on a mesh, and what is asked of its posterior.

    Attributes
    ----------
    problem : InverseProblem
        Of a prior on a mesh.
    exceedance : tuple of float
        Values of the conductivity, in its unit: the probability of being above each is a field.
    """

    problem: InverseProblem
    exceedance: tuple[float, ...] = ()

    @property
    def mesh(self) -> Mesh:
        """Where the field lives."""
        return mesh_of(self.problem.prior)

    @property
    def sensors(self) -> Sensors | None:
        """Those in use, d of them, where the model knows them."""
        return self.problem.model.on_mesh.sensors

    @property
    def prior(self) -> Prior:
        """The prior of the field, which that of the problem may hold beside further unknowns."""
        prior = self.problem.prior
        return prior.parts[self.field.name] if isinstance(prior, NamedPrior) else prior

    @property
    def field(self) -> Quantity:
        """What that is: its name, and whether it is at the nodes or in the cells."""
        return next(each for each in quantities_of(self.problem) if each.place)

    def lines(self) -> list[tuple[str, str]]:
        """As :meth:`ProblemBase.lines`: the mesh, and what the problem is made of."""
        return [("mesh", size_of(self.mesh)), *self.problem.lines()]


#: What commands and the functions behind them take.
AnyProblem = FieldProblem | InverseProblem | ManifoldProblem


def plain(problem: AnyProblem) -> InverseProblem | ManifoldProblem:
    """The problem that samplers see of one that a person hands over."""
    return problem.problem if isinstance(problem, FieldProblem) else problem


def with_readings(problem: AnyProblem, where: str, command: str) -> FieldProblem | InverseProblem:
    """The problem, for a command about readings; an InputError of a density on a manifold."""
    if isinstance(problem, ManifoldProblem):
        remedy = f"{command} is for problems with readings; check, run and report take any"
        raise InputError(where, "a problem with readings", "a density on a manifold", remedy)
    return problem


def on_mesh(problem: AnyProblem) -> FieldProblem | None:
    """A problem as one of a field on a mesh; None if it is none."""
    if isinstance(problem, FieldProblem):
        return problem
    is_one = isinstance(problem, InverseProblem) and mesh_of(problem.prior) is not None
    return FieldProblem(problem) if is_one else None


def size_of(mesh: Mesh) -> str:
    """The size of a mesh, in words."""
    kind = "triangles" if mesh.dim == 2 else "tetrahedra"
    return f"{mesh.num_nodes} nodes, {mesh.num_cells} {kind}"
