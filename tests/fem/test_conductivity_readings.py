"""Readings of the conductivity itself: those of its logarithm, known up to a factor."""

import numpy as np
import pytest
from structured import box_mesh

import invlift
from invlift.errors import InputError
from invlift.fem.readings.locate import locate
from invlift.tables.sensors import read_sensors

TABLE = (
    "x,y,kind,value [V],sigma [mV],sigma_factor\n"
    "0.3,0.4,point,2.1,100,\n"
    "0.5,0.6,conductivity,1e-4,,2\n"
    "0.7,0.2,conductivity,3e-5,,1.5\n"
)


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "t.csv"
        path.write_text(text, encoding="utf-8")
        return read_sensors(path, 2)

    return read


def test_they_are_readings_of_the_logarithm(read):
    sensors = read(TABLE)
    assert sensors.kinds.tolist() == ["point", "log_conductivity", "log_conductivity"]
    np.testing.assert_allclose(sensors.values, [2.1, np.log(1e-4), np.log(3e-5)])
    np.testing.assert_allclose(sensors.sigma, [0.1, np.log(2.0), np.log(1.5)])
    assert sensors.notes == ("read with the logarithm of 2 conductivities",)
    mesh = box_mesh(2, 3)
    logs = TABLE.replace("1e-4,,2", f"{float(np.log(1e-4))!r},{1e3 * float(np.log(2.0))!r},")
    logs = logs.replace("3e-5,,1.5", f"{float(np.log(3e-5))!r},{1e3 * float(np.log(1.5))!r},")
    asked = read(logs.replace(",conductivity", ",log_conductivity"))
    for name, part in locate(mesh, sensors).parts.items():
        np.testing.assert_array_equal(part.weights, locate(mesh, asked).parts[name].weights)
    np.testing.assert_allclose(asked.sigma, sensors.sigma, rtol=1e-12)


def test_the_noise_may_be_said_elsewhere(read):
    sensors = read("x,y,kind,value\n0.5,0.6,conductivity,1e-4\n")
    assert sensors.sigma is None
    np.testing.assert_allclose(sensors.values, np.log(1e-4))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            ("1e-4", "-1e-4"),
            r"row 3, column value: expected a positive conductivity, found -0.0001",
        ),
        (("1e-4,,2", "1e-4,,0.5"), r"row 3, column sigma_factor: expected a number above 1"),
        (("2.1,100,", "2.1,,2"), r"row 2, column sigma_factor: .* of a reading of kind conduct"),
        (("1e-4,,2", "1e-4,1,2"), r"row 3, column sigma: expected an empty entry"),
        (("1e-4,,2", "1e-4,,"), r"row 3, column sigma: .* found neither"),
    ],
)
def test_mistakes_are_named(read, change, part):
    with pytest.raises(InputError, match=part):
        read(TABLE.replace(*change))


def test_relative_noise_refuses_them(read):
    """A share of a logarithm depends on the unit of the conductivity."""
    sensors, mesh = read(TABLE), box_mesh(2, 3)
    model = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=1.0, dirichlet={"left": 0.0}
    )
    prior = invlift.matern_prior(mesh, range=0.3, std=1.0, smoothness=1.0)
    with pytest.raises(InputError, match=r"noise relative: expected false, as .* the logarithm"):
        invlift.inverse_problem(
            model, prior, invlift.gaussian_noise(0.1, relative=True), sensors.values
        )
