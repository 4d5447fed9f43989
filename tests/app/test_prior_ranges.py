"""Priors of regions said as a range of the conductivity."""

import numpy as np
from problem_files import assert_named, write_problem
from scipy.stats import norm

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem

BETWEEN = {"low": [1e-5, 1e-3], "high": [2.0, 8.0]}
MATERN = {"kind": "matern", "range": 1.0, "smoothness": 1.0, "boundary": "robin"}


def prior_of(folder, prior):
    field = build_problem(read_problem(write_problem(folder, {"prior": prior})))
    return field.mesh, field.prior


def shares_below(mean, std, pair):
    return norm.cdf((np.log(pair) - mean) / std)


def test_the_range_of_a_region_has_its_5_and_95_percent_points(tmp_path):
    prior = {"kind": "independent", "per": "subdomain", "between": BETWEEN}
    mesh, prior = prior_of(tmp_path, prior)
    for name, pair in BETWEEN.items():
        cell = mesh.subdomains[name][0]
        mean, std = np.asarray(prior.mean)[cell], prior.pointwise_std()[cell]
        np.testing.assert_allclose(shares_below(mean, std, pair), [0.05, 0.95], rtol=1e-9)
        # negative control: of the points of one standard deviation
        assert abs(shares_below(mean, 1.645 * std, pair)[0] - 0.05) > 0.1


def test_layers_and_one_range_for_all(tmp_path):
    pair = [1e-5, 1e-3]
    mean, std = np.log(1e-4), np.log(10.0) / norm.ppf(0.95)
    wanted = {**MATERN, "between": pair}
    asked = {**MATERN, "mean": float(mean), "std": float(std)}
    layers = {name: {k: v for k, v in wanted.items() if k != "kind"} for name in BETWEEN}
    layered = {"kind": "layers", "layer": layers}
    same = {k: v for k, v in asked.items() if k != "kind"}
    for first, second in (
        (wanted, asked),
        (layered, {"kind": "layers", "layer": dict.fromkeys(BETWEEN, same)}),
        ({"kind": "independent", "between": pair},
         {"kind": "independent", "mean": float(mean), "std": float(std)}),
    ):  # fmt: skip
        found = [prior_of(tmp_path / "a", each)[1] for each in (first, second)]
        white = np.random.default_rng(0).normal(size=found[0].num_white)
        np.testing.assert_allclose(*(np.asarray(each.transform(white)) for each in found))


def test_mistakes_are_named(tmp_path):
    for keys, parts in (
        ({"between": [1e-3, 1e-5]}, ["[prior] between", "0.001 and 1e-05", "swap"]),
        ({"between": [0.0, 1.0]}, ["[prior] between"]),
        ({"between": [1.0, 2.0], "std": 1.0}, ["between and std", "keep one"]),
        ({}, ["[prior]", "std, or between in its place"]),
    ):
        assert_named(write_problem(tmp_path, {"prior": MATERN | keys}), parts)
