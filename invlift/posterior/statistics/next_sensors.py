"""Places for further sensors: expected variance reduction by one more reading.

Only stored draws are used. By the covariances of the draws, a reading of the solution u at a node,
with noise of variance s^2, reduces the variance of phi_i by Cov(phi_i, u)^2 / (Var u + s^2). This
is exact for a Gaussian posterior (Kalman 1960). Otherwise it is the best linear estimate (Goldstein
& Wooff 2007, "Bayes Linear Statistics", section 3.1), which needs no further solution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from invlift.errors import InputError
from invlift.posterior.names import SOLUTION
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import every_of, of_solution

#: Largest number of draws used, spread over the stored ones. The work grows with its square. At an
#: uninformative place the estimated share is one over this number.
MAX_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class NextSensors:
    """Places for further sensors.

    Attributes
    ----------
    shares : dict of str to (num_nodes,) array
        For each solution (one per experiment), the share of the remaining variance that one more
        reading at each node would remove.
    best : pandas.DataFrame
        The places in the order of choice, best first: node, coordinates, ``solution``, and the
        ``share`` of the present variance that readings up to this one would remove.
    num_draws : int
        Number of draws used: an uninformative place has an estimated share of 1 / num_draws.
    """

    shares: dict[str, np.ndarray]
    best: pd.DataFrame
    num_draws: int


def next_sensors(posterior: PosteriorStatistics, num: int, name: str | None) -> NextSensors:
    """See `Posterior.next_sensors`."""
    if num < 1:
        raise InputError("next sensor", "one place or more", f"{num}", "ask for at least one")
    solutions = _solutions(posterior)
    values, number = _wanted(posterior, name)
    every = max(number, *(every_of(posterior.chains, each) for each in solutions))

    def draws(values, number: int) -> np.ndarray:
        """Return centred draws of all chains, scaled so that products are covariances."""
        pooled = np.concatenate([np.asarray(chain)[:: every // number] for chain in values])
        moved = pooled[:: -(-len(pooled) // MAX_DRAWS)] - pooled[0]  # exactly zero where all agree
        centred = moved - moved.mean(axis=0)
        return centred.reshape(len(centred), -1) / np.sqrt(max(len(centred) - 1, 1))

    wanted = draws(values, number)
    gram = wanted @ wanted.T  # Gram matrix; there may be many more wanted numbers than draws
    before = np.trace(gram)
    if not 0.0 < before < np.inf:
        expected, found = "finite draws that differ", f"draws of variance {before:g}"
        raise InputError("next sensor", expected, found, "run for longer, or name another quantity")
    fields = {each: draws(posterior.draws(each), every_of(posterior.chains, each))
              for each in solutions}  # fmt: skip
    moves = np.concatenate(list(fields.values()), axis=1)
    noise = _noise_variance(posterior)
    num_nodes, rows, gone = len(posterior.mesh.points), [], 0.0
    for rank in range(num):
        variances = np.sum(moves**2, axis=0)
        taken = np.sum(moves * (gram @ moves), axis=0) / (variances + noise)
        if rank == 0:
            shares = dict(zip(fields, (taken / before).reshape(-1, num_nodes), strict=True))
        best = int(np.argmax(taken))
        gone += taken[best] / before
        rows.append((best % num_nodes, list(fields)[best // num_nodes], gone))
        # Now the products of draws are the covariances given this reading.
        along, spread = moves[:, best], variances[best] + noise
        factor = 1.0 / (spread + np.sqrt(noise * spread))
        moves = moves - factor * np.outer(along, along @ moves)
        gram = gram - factor * np.outer(along, along @ gram)
        gram = gram - factor * np.outer(gram @ along, along)
    nodes, names, totals = zip(*rows, strict=True)
    places = dict(zip("xyz", posterior.mesh.points[list(nodes)].T, strict=False))
    columns = {"node": nodes, **places, "solution": names, "share": totals}
    best = pd.DataFrame(columns, index=pd.RangeIndex(1, num + 1, name="rank"))
    return NextSensors(shares, best, len(wanted))


def _solutions(posterior: PosteriorStatistics) -> list[str]:
    solutions = [
        each.name
        for each in posterior.described.values()
        if each.is_derived and each.place == "node" and each.name.startswith(SOLUTION)
    ]
    if not solutions and {*"abmn"} <= {*posterior.readings.coordinates}:  # electrodes
        expected, given = "a run of a field that is read by sensors", "one of electrodes"
        remedy = "their potential inside is not kept, so that there are no places to choose from"
        raise InputError("next sensor", expected, given, remedy)
    if posterior.mesh is None or not solutions:
        raise InputError(
            "next sensor",
            "a run of a field problem with stored draws of its solution",
            "none",
            "run one, with [output] max_field_megabytes large enough to store them",
        )
    return solutions


def _wanted(posterior: PosteriorStatistics, name: str | None):
    """Return the draws of the quantity of interest, and their thinning.

    Draws of a field are multiplied by the square root of the share of the body of each coefficient.
    """
    chains, scalars = posterior.chains, posterior.scalars
    field = posterior.field if name is None else posterior.described.get(name)
    if field is not None and field.place and not field.is_derived:
        shares = posterior.mesh.mean_over(None, field.place).toarray()[0]
        draws = [np.asarray(each) * np.sqrt(shares) for each in posterior.draws(field.name)]
        return draws, every_of(chains, field.name)
    if name not in scalars:
        fields = [
            each for each, of in posterior.described.items() if of.place and not of.is_derived
        ]
        known, found = ", ".join([*fields, *scalars]), "none" if name is None else repr(name)
        raise InputError("next sensor", f"one of {known}", found, "name a quantity of the run")
    # Moments of a field come from its stored draws, unless the chains recorded them.
    of = name if name in posterior.described else re.sub("_field_(mean|std)$", "", name)
    return scalars[name], every_of(chains, of)


def _noise_variance(posterior: PosteriorStatistics) -> float:
    """Return the squared median of the noise sd of readings of the solution."""
    fit = posterior.fit.sensors()
    is_usual = of_solution(posterior.readings)
    if fit.noise_sd is None or not is_usual.any():
        expected = "readings of the solution, whose noise a further one would have"
        remedy = "take problem.posterior(run) of a problem with such readings"
        raise InputError("next sensor", expected, "none", remedy)
    return float(np.median(fit.noise_sd[is_usual]) ** 2)
