"""The matrix of parameters: histograms of area 1, the prior's density, pairs of draws."""

import numpy as np
import pytest
from posterior_cases import Chain
from scipy.stats import norm

from invlift.errors import InputError
from invlift.posterior import Posterior, Quantity

GRID = np.linspace(-20.0, 20.0, 4001)


def parameters(**changes):
    """Two numbers with priors, one without, and a vector whose entries have one."""
    rng = np.random.default_rng(0)
    chains = []
    for _ in range(2):
        rate = rng.normal(1.0, 0.5, 600)
        other = {"free": rng.normal(size=600), "sigma": rng.normal(3.0, 1.0, (600, 2))}
        chains.append(Chain({"start": 2 * rate + rng.normal(size=600), "rate": rate} | other))
    priors = {"rate": norm(0.0, 2.0), "start": norm(1.0, 3.0), "sigma": norm(3.0, 1.0)}
    quantities = [
        Quantity(
            name,
            {"noise_group": None} if name == "sigma" else {},
            "1/s" if name == "rate" else "",
            prior_density=np.stack([GRID, prior.pdf(GRID)]),
        )
        for name, prior in priors.items()
    ]
    return Posterior(chains, quantities), priors


def lines_of(ax):
    return {line.get_label(): line.get_xydata().T for line in ax.lines}


def test_histograms_have_area_one_beside_the_density_of_the_prior():
    posterior, priors = parameters()
    figure = posterior.plot.parameters().figure
    assert len(figure.axes) == 10  # of four
    diagonal = [ax for ax in figure.axes if "prior density" in lines_of(ax)]
    names = ["start", "rate", "sigma", "sigma"]
    for ax, name, entry in zip(diagonal, names, (..., ..., 0, 1), strict=True):
        at, density = lines_of(ax)["prior density"]
        np.testing.assert_allclose(density, priors[name].pdf(at), rtol=1e-3)
        assert density.max() < ax.get_ylim()[1]
        values = np.concatenate(posterior.draws(name))
        values = values if entry is ... else values[:, entry]
        (stairs,) = ax.patches
        heights, edges, _ = stairs.get_data()
        np.testing.assert_allclose(heights * np.diff(edges) * values.size,
                                   np.histogram(values, edges)[0])  # fmt: skip
        assert 0.985 < np.sum(heights * np.diff(edges)) <= 1.0


def test_pairs_are_draws_and_units_are_on_the_axes():
    posterior, _ = parameters()
    figure = posterior.plot.parameters(names=["rate", "start", "free"]).figure
    corner = figure.axes[1]  # rate against start
    (points,) = corner.lines
    draws = np.stack([np.concatenate(posterior.draws(name)) for name in ("start", "rate")], axis=1)
    np.testing.assert_array_equal(points.get_xydata(), draws[::2])
    assert corner.get_ylabel() == "rate [1/s]"
    labels = [ax.get_xlabel() for ax in figure.axes[3:]]
    assert labels == ["start", "rate [1/s]", "free"]
    assert lines_of(figure.axes[5]) == {}  # nothing is known of it before the data


def test_a_single_constant_parameter_has_a_picture(tmp_path):
    posterior = Posterior([Chain({"x": np.full(30, 2.0)})])
    (ax,) = posterior.plot.parameters(tmp_path / "x.png").figure.axes
    assert ax.get_xlim()[0] < 2.0 < ax.get_xlim()[1]
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_parameters_that_are_not_there_are_an_error():
    posterior, _ = parameters()
    with pytest.raises(InputError, match="plot of scalars"):
        posterior.plot.parameters(names=["rat"])
    with pytest.raises(InputError, match="draws of a scalar"):
        Posterior([Chain({"m": np.zeros((5, 40, 40))})]).plot.parameters()
