"""Equations of a body assembled cell by cell into dense matrices, which share no code with fem/.

Linear elements on triangles and tetrahedra, and quadrature that is exact to degree 2.
"""

import math

import numpy as np
from scipy.special import k0, k1
from skfem.quadrature import get_quadrature
from skfem.refdom import RefLine, RefTet, RefTri

REFERENCES = {1: RefLine, 2: RefTri, 3: RefTet}


def rule(dim):
    """Barycentric coordinates, (Q, dim + 1), and weights, (Q,), of the mean over a simplex."""
    points, weights = get_quadrature(REFERENCES[dim], 2)
    return np.vstack([1.0 - points.sum(axis=0), points]).T, weights / weights.sum()


def size_of(corners):
    """Length, area or volume."""
    edges = corners[1:] - corners[:1]
    return math.sqrt(np.linalg.det(edges @ edges.T)) / math.factorial(len(edges))


def shapes_at(mesh, place):
    """Basis functions of all nodes at a place, (num_nodes,), and its cell."""
    for number, cell in enumerate(mesh.cells):
        corners = np.vstack([np.ones(mesh.dim + 1), mesh.points[cell].T])
        shares = np.linalg.solve(corners, np.append(1.0, place))
        if shares.min() > -1e-9:
            found = np.zeros(mesh.num_nodes)
            found[cell] = shares
            return found, number
    raise AssertionError(f"{place} is outside")


def mean_over(mesh, group):
    """Of a field at the nodes over a boundary group or subdomain, (num_nodes,)."""
    is_boundary = group in mesh.boundaries
    parts = mesh.boundaries[group] if is_boundary else mesh.cells[mesh.subdomains[group]]
    found, total = np.zeros(mesh.num_nodes), 0.0
    for corners in parts:
        size = size_of(mesh.points[corners])
        found[corners] += size / len(corners)
        total += size
    return found / total


class Body:
    """A mesh with log-conductivity phi at its nodes or in its cells, in some of which it is known.

    Attributes
    ----------
    matrix, load : (n, n) and (n,) arrays
        The first ``num_nodes`` rows are those of nodes; others are there for ``num_more``.
    """

    def __init__(self, mesh, phi, location, known=None, num_more=0):
        self.mesh, self.location = mesh, location
        self.at_corners = phi[mesh.cells if location == "nodes" else np.arange(len(phi))[:, None]]
        self.at_corners = np.broadcast_to(self.at_corners, mesh.cells.shape).copy()
        for name, value in (known or {}).items():
            self.at_corners[mesh.subdomains[name]] = np.log(value)
        size = mesh.num_nodes + num_more
        self.matrix, self.load = np.zeros((size, size)), np.zeros(size)
        self.held = {}

    def conduct(self, wave=0.0):
        """-div(exp(phi) grad u) + wave^2 exp(phi) u."""
        shapes, weights = rule(self.mesh.dim)
        for cell, phi in zip(self.mesh.cells, self.at_corners, strict=True):
            corners = self.mesh.points[cell]
            gradients = np.linalg.inv(np.column_stack([np.ones(len(cell)), corners]))[1:]
            each = weights * np.exp(shapes @ phi)
            own = each.sum() * gradients.T @ gradients
            own += wave**2 * np.einsum("q,qi,qj->ij", each, shapes, shapes)
            self.matrix[np.ix_(cell, cell)] += size_of(corners) * own

    def source(self, density):
        """Of a number, values at nodes or in cells, or numbers of subdomains that add up."""
        mesh, (shapes, weights) = self.mesh, rule(self.mesh.dim)
        if isinstance(density, dict):
            number = np.zeros(mesh.num_cells)
            for name, value in density.items():
                number[mesh.subdomains[name]] += value
            density = number
        for number, cell in enumerate(mesh.cells):
            if np.ndim(density) == 0:
                here = np.full(len(cell), density)
            elif len(density) == mesh.num_cells:
                here = np.full(len(cell), density[number])
            else:
                here = density[cell]
            products = np.einsum("q,qi,qj->ij", weights, shapes, shapes)
            self.load[cell] += size_of(mesh.points[cell]) * products @ here

    def at_point(self, place, strength):
        """A well or a heater."""
        self.load[: self.mesh.num_nodes] += strength * shapes_at(self.mesh, place)[0]

    def facet_mass(self, group, weight):
        """Integrals of a weight u v over a group, (num_nodes, num_nodes)."""
        shapes, weights = rule(self.mesh.dim - 1)
        found = np.zeros((self.mesh.num_nodes,) * 2)
        for facet in self.mesh.boundaries[group]:
            here = np.broadcast_to(weight, self.mesh.num_nodes)[facet]
            own = np.einsum("q,qi,qj->ij", weights * (shapes @ here), shapes, shapes)
            found[np.ix_(facet, facet)] += size_of(self.mesh.points[facet]) * own
        return found

    def inflow(self, group, flux):
        """A flux into the body through a group."""
        flux = np.broadcast_to(flux, self.mesh.num_nodes)
        self.load[: self.mesh.num_nodes] += self.facet_mass(group, 1.0) @ flux

    def exchange(self, group, coefficient, ambient):
        """A Robin condition; returns the flux that it lets in, as a function of the solution."""
        num, mass = self.mesh.num_nodes, self.facet_mass(group, coefficient)
        ambient = np.broadcast_to(ambient, num)
        self.matrix[:num, :num] += mass
        self.load[:num] += mass @ ambient
        return lambda u: np.sum(mass @ (ambient - u[:num]))

    def contact(self, group, impedance, dof):
        """The exchange of a group with an electrode, whose potential is a degree of freedom."""
        num, mass = self.mesh.num_nodes, self.facet_mass(group, 1.0 / impedance)
        self.matrix[:num, :num] += mass
        self.matrix[:num, dof] -= mass.sum(axis=1)
        self.matrix[dof, :num] -= mass.sum(axis=0)
        self.matrix[dof, dof] += mass.sum()

    def goes_on(self, surface, middle, wave=0.0):
        """The ground goes on beyond all facets of the boundary but those of its surface."""
        shapes, weights = rule(self.mesh.dim - 1)
        ground = {tuple(sorted(each)) for each in self.mesh.boundaries[surface].tolist()}
        behind = zip(self.mesh.boundary_facets, self.mesh.boundary_cells, strict=True)
        for facet, number in behind:
            if tuple(sorted(facet.tolist())) in ground:
                continue
            corners, cell = self.mesh.points[facet], self.mesh.cells[number]
            normal = np.linalg.svd(corners[1:] - corners[0])[2][-1]
            inside = self.mesh.points[np.setdiff1d(cell, facet)[0]] - corners[0]
            normal *= -np.sign(normal @ inside)
            away = shapes @ corners - middle
            radius = np.linalg.norm(away, axis=1)
            rate = np.maximum(away @ normal / radius, 0.0)
            rate *= wave * k1(wave * radius) / k0(wave * radius) if wave else 1.0 / radius
            phi = self.at_corners[number][[cell.tolist().index(each) for each in facet]]
            each = weights * rate * np.exp(shapes @ phi)
            own = np.einsum("q,qi,qj->ij", each, shapes, shapes)
            self.matrix[np.ix_(facet, facet)] += size_of(corners) * own

    def hold(self, group, value):
        """u is given on a group."""
        nodes = np.unique(self.mesh.boundaries[group])
        self.held[group] = nodes, np.broadcast_to(value, self.mesh.num_nodes)[nodes]

    def solve(self, loads=None):
        """The solution of the load, (n,), or of others, (n, k)."""
        rhs = self.load if loads is None else loads
        solution, is_held = np.zeros(rhs.shape), np.zeros(len(rhs), dtype=bool)
        for nodes, values in self.held.values():
            solution[nodes], is_held[nodes] = values, True
        free = np.flatnonzero(~is_held)
        rest = (rhs - self.matrix @ solution)[free]
        solution[free] = np.linalg.solve(self.matrix[np.ix_(free, free)], rest)
        return solution

    def flux_of_held(self, group, solution):
        """Into the body through a group where u is held, which no other such group touches."""
        nodes, _ = self.held[group]
        return np.sum((self.matrix @ solution - self.load)[nodes])
