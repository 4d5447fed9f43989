"""Readings by name: a dict of arrays from the model, arrays or xarray's as observed."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from crafted import near_prior

import invlift
from invlift.errors import InputError
from invlift.noise import known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.unknowns.distributions import lognormal, normal

YEARS = [1900, 1901, 1902]
UNKNOWNS = {"start": normal(2.0, 0.5), "rate": lognormal(median=0.5, factor=2.0)}
HARE, LYNX, TOTAL = np.array([2.1, 1.3, 0.8]), np.ones((3, 2)), np.array(0.7)


def model(start, rate):
    hare = start * jnp.exp(-rate * jnp.arange(3.0))
    lynx = hare[:, None] * jnp.array([0.5, 0.25])
    # In another order than observed.
    readings = {"total": jnp.sum(hare), "lynx": lynx, "hare": hare}
    return readings, {"path": jnp.cumsum(hare)}


def observed():
    hare = xr.DataArray(HARE, dims="year", coords={"year": YEARS})
    coords = {"year": YEARS, "site": ["north", "south"]}
    lynx = xr.DataArray(LYNX, dims=("year", "site"), coords=coords)
    return {"hare": hare, "lynx": lynx, "total": TOTAL}


LABELS = [f"hare[{year}]" for year in YEARS]
LABELS += [f"lynx[{year}, {site}]" for year in YEARS for site in ("north", "south")] + ["total"]


def problem(values=None, **options):
    values = observed() if values is None else values
    return inverse_problem(model, UNKNOWNS, known_noise(0.1), values, **options)


@pytest.fixture(scope="module")
def posterior():
    given = problem(axes={"path": {"year": YEARS}})
    return near_prior(given)


def test_readings_are_those_of_a_vector_of_all(posterior):
    np.testing.assert_array_equal(posterior.sensors.values, [*HARE, *LYNX.ravel(), TOTAL])
    draws = posterior.chains[0].draws
    hare = draws["start"][:, None] * np.exp(-draws["rate"][:, None] * np.arange(3.0))
    lynx = np.repeat(hare, 2, axis=1) * np.tile([0.5, 0.25], 3)
    expected = np.column_stack([hare, lynx, hare.sum(axis=1)])
    np.testing.assert_allclose(draws["predicted"], expected, rtol=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        observed(),
        xr.Dataset(observed()),
        # The same axes, given beside plain arrays.
        {"hare": HARE.tolist(), "lynx": LYNX, "total": 0.7},
    ],
)
def test_names_of_readings(values):
    is_plain = isinstance(values["hare"], list)
    axes = {"hare": {"year": YEARS}, "lynx": {"year": YEARS, "site": ["north", "south"]}}
    given = problem(values, axes=axes if is_plain else None)
    names = [each.name for each in given.model.readings]
    assert names == ["hare", "lynx", "total"]
    assert [label for each in given.model.readings for label in each.labels] == LABELS


def test_columns_of_a_data_frame_are_readings_by_name():
    frame = pd.DataFrame({"hare": HARE, "lynx": HARE}, index=pd.Index(YEARS, name="year"))
    given = inverse_problem(
        lambda rate: {"lynx": rate * jnp.ones(3), "hare": jnp.zeros(3)},
        {"rate": UNKNOWNS["rate"]},
        {"hare": 0.1, "lynx": 0.2},
        frame,
    )
    labels = [label for each in given.model.readings for label in each.labels]
    assert labels == [f"{name}[{year}]" for name in ("hare", "lynx") for year in YEARS]


def test_standard_deviations_of_a_series_go_by_its_labels():
    scales = pd.Series({"b": 0.2, "a": 0.1})
    unknowns = {"x": normal(1.0, 1.0)}
    problem = inverse_problem(lambda x: {"a": x, "b": x}, unknowns, scales, {"a": 1.0, "b": 3.0})
    np.testing.assert_array_equal(problem.noise.scale.known, [0.1, 0.2])
    scales = pd.Series({"b": 0.2, "c": 0.1})
    with pytest.raises(InputError, match="of a, b, found b, c;"):
        inverse_problem(lambda x: {"a": x, "b": x}, unknowns, scales, {"a": 1.0, "b": 3.0})


def test_results_have_the_names(posterior, tmp_path):
    posterior.write(tmp_path)
    fit = (tmp_path / "sensor_fit.csv").read_text().splitlines()
    assert [next(iter(line.split("],"))) for line in fit[1:3]] == ["hare[1900", "hare[1901"]
    with xr.open_dataset(tmp_path / "posterior.nc", group="posterior", engine="h5netcdf") as draws:
        assert draws["predicted"].sel(sensor="hare[1901]").shape == (2, 40)
        assert draws["path"].sel(year=1902).shape == (2, 40)
    path = tmp_path / "posterior.nc"
    with xr.open_dataset(path, group="constant_data", engine="h5netcdf") as constants:
        assert constants["sensor_name"].values.tolist() == ["hare"] * 3 + ["lynx"] * 6 + ["total"]
        years = [*YEARS, *np.repeat(YEARS, 2), np.nan]
        np.testing.assert_array_equal(constants["sensor_year"].values, years)
        sites = [""] * 3 + ["north", "south"] * 3 + [""]
        assert constants["sensor_site"].values.tolist() == sites
    again = invlift.load(tmp_path)
    assert list(again.sensors.labels) == LABELS
    np.testing.assert_array_equal(again.sensors.coordinates["year"], years)
    for plot in (again.plot.sensors, again.plot.leave_one_out):
        assert [each.get_text() for each in plot().figure.axes[1].get_xticklabels()] == LABELS


def test_readings_without_a_path_have_units():
    """A number that is kept has one as well; and the program is that without units."""
    given = inverse_problem(
        lambda rate: ({"flow": rate * jnp.arange(3.0), "level": rate}, {"half": jnp.log(2) / rate}),
        {"rate": UNKNOWNS["rate"]},
        known_noise(0.1),
        {"flow": HARE, "level": TOTAL},
        axes={"flow": {"year": YEARS}},
    )
    made = given.with_units({"flow": "m3/s", "half": "d"})
    assert jax.tree.structure(made) == jax.tree.structure(given)
    posterior = near_prior(made, draws=10)
    labels = [axes.get_ylabel() for axes in posterior.plot.series().figure.axes]
    assert labels == ["flow [m3/s]", "residual"]
    assert posterior.titles == {"half": "half [d]", "rate": "rate"}


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ({"flow": "m"}, "units: expected names among .*hare.*, found 'flow'; rename it"),
        ({"hare": 1000}, "units, hare: expected text, found 1000"),
        ({"rate": "1/d"}, "units, rate: expected the unknown's, 1/year, found 1/d; give it once"),
        ("m", "units: expected a dict of units by name, found 'm'"),
    ],
)
def test_units_of_nothing_are_named(units, message):
    in_years = UNKNOWNS | {"rate": invlift.Unknown(UNKNOWNS["rate"], "1/year")}
    given = inverse_problem(model, in_years, known_noise(0.1), observed())
    assert given.with_units({"rate": "1/year"}).units == {"rate": "1/year"}
    with pytest.raises(InputError, match=message):
        given.with_units(units)


def test_dates_become_text():
    times = np.array(["2020-01-01", "2020-02-01", "2020-03-01"], dtype="datetime64[ns]")
    hare = xr.DataArray(HARE, dims="time", coords={"time": times})
    given = problem(observed() | {"hare": hare})
    assert given.model.readings[0].labels[1] == "hare[2020-02-01]"


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ({}, {}, "argument observed: expected at least one array"),
        ({"hare": [2.0, np.nan, 1.0]}, {},
         "argument observed, hare: .*missing, found nan at .* 1; "),
        ({"hare": "many"}, {}, "argument observed, hare: expected an array of numbers"),
        ({"hare": HARE}, {}, "forward map: .*readings hare, found one of total, lynx, hare; "),
        (observed() | {"hare": HARE[:2]}, {}, r"forward map, hare: expected shape \(2,\).*\(3,\)"),
        (observed() | {"hare": xr.DataArray(HARE, dims="sigma", coords={"sigma": YEARS})}, {},
         "argument observed, hare, axes: .* found 'sigma', which is that of another column"),
        (HARE, {}, "forward map: .* found dict; .*name the observed"),
        (observed(), {"axes": {"trail": {"year": YEARS}}}, "argument axes, trail: .*path"),
        (observed(), {"axes": {"path": {"year": [1]}}},
         "quantity path, axes: .*found 1 along year"),
    ],
)  # fmt: skip
def test_mistakes_are_named(values, options, message):
    with pytest.raises(InputError, match=f"^{message}"):
        problem(values, **options)


def test_names_are_for_functions_of_named_unknowns():
    with pytest.raises(InputError, match=r"^argument observed: expected an array"):
        invlift.jax_problem(lambda theta: theta, 2, known_noise(0.1), {"a": np.ones(2)})


def test_noise_by_name_has_the_axes_of_the_readings():
    coords = {"year": [1, 2], "site": list("abc")}
    noise = xr.DataArray([[0.1, 1.0, 10.0], [0.2, 2.0, 20.0]], coords, ("year", "site"))

    def made(noise):
        model = lambda a: {"q": a * jnp.ones((2, 3))}  # noqa: E731
        return inverse_problem(model, {"a": normal(0.0, 1.0)}, noise, {"q": xr.ones_like(readings)})

    readings = noise.copy()
    expected = noise.to_numpy().ravel()
    for given in ({"q": noise}, {"q": noise.to_numpy()}, {"q": noise.drop_vars(["year", "site"])}):
        np.testing.assert_array_equal(made(given).noise.scale.known, expected)
    for given in (noise.T, noise[::-1]):
        with pytest.raises(InputError, match=r"^noise q: expected axes year, site with the coord"):
            made({"q": given})


@pytest.mark.parametrize("noise", [[0.5, 1.0], pd.Series([0.5, 1.0]), jnp.array([0.5, 1.0])])
def test_noise_of_each_reading(noise):
    made = inverse_problem(lambda a: a * jnp.ones(2), {"a": normal(0.0, 1.0)}, noise, np.ones(2))
    np.testing.assert_array_equal(made.noise.scale.known, [0.5, 1.0])


def test_what_a_caller_does_to_arrays_later_changes_no_problem():
    """JAX may share memory with an array that is aligned as these are."""

    def aligned(values):
        memory = np.empty(88, np.uint8)
        start = -memory.ctypes.data % 64
        found = memory[start : start + 8 * len(values)].view(float)
        found[:] = values
        return found

    readings, noise, mean = aligned([1.0, 2.0]), aligned([0.1, 0.2]), aligned([3.0, 4.0])
    made = inverse_problem(lambda a: a, {"a": normal(mean, 1.0)}, noise, readings)
    for each in (readings, noise, mean):
        each[:] = 7.0
    np.testing.assert_array_equal(made.observed, [1.0, 2.0])
    np.testing.assert_array_equal(made.noise.scale.known, [0.1, 0.2])
    np.testing.assert_array_equal(made.prior.transform(jnp.zeros(2)), [3.0, 4.0])


# Tables, whose rows are taken one after the other -------------------------------------------------

SITES = pd.MultiIndex.from_product([["south", "north"], [1, 2]], names=["site", "t"])
TABLE = pd.DataFrame({"x": [10.0, 20.0, 1.0, 2.0], "sd": [5.0, 5.0, 0.1, 0.1]}, index=SITES)


def of_table(observed, noise=0.1, site=("south", "north")):
    level = invlift.Unknown(invlift.normal(np.zeros(2), 10.0), "", {"site": site})

    def model(level):
        return {"x": jnp.outer(level, jnp.array([1.0, 2.0]))}

    return invlift.inverse_problem(model, {"level": level}, noise, observed)


def test_a_table_of_two_levels_keeps_its_order():
    """Xarray would sort them, and the column of the noise would belong to other rows."""
    problem = of_table(TABLE[["x"]], {"x": TABLE["sd"]})
    np.testing.assert_array_equal(problem.observed, TABLE["x"])
    np.testing.assert_array_equal(problem.noise.scale.known, TABLE["sd"])
    (reading,) = problem.model.readings
    assert dict(reading.axes)["site"] == ("south", "north")
    again = of_table(TABLE[["x"]], TABLE[["sd"]].rename(columns={"sd": "x"}))
    np.testing.assert_array_equal(again.noise.scale.known, TABLE["sd"])
    numbered = of_table(TABLE[["x"]], {"x": TABLE["sd"].reset_index(drop=True)})
    np.testing.assert_array_equal(numbered.noise.scale.known, TABLE["sd"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"observed": TABLE[["x"]].iloc[[0, 3, 2, 1]]}, "a row for each combination"),
        ({"noise": {"x": TABLE["sd"].sort_index()}}, "the index of the readings"),
        ({"noise": {"x": np.ones((4, 1))}}, "shape"),
        ({"site": ("north", "south")}, "coordinates along site in the order of the unknown level"),
    ],
)
def test_rows_of_another_order_are_refused(given, expected):
    with pytest.raises(InputError, match=expected):
        of_table(**{"observed": TABLE[["x"]], **given})
