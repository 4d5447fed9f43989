"""Series of fields as ParaView reads them, by PyVista's reader of PVD files."""

import numpy as np
import pytest
import pyvista
from posterior_cases import box, square

from invlift.errors import InputError
from invlift.posterior.output.files import Step, write_series


def test_steps_open_in_their_order(tmp_path):
    points, cells = box()
    rng = np.random.default_rng(0)
    steps = [
        Step({"u": rng.normal(size=len(points))}, {"k": rng.normal(size=len(cells))}, {"s": index})
        for index in range(12)
    ]
    path = tmp_path / 'a "b" & <c>.pvd'
    written = write_series(path, points, cells, steps)
    assert written[0] == path
    assert set(written) == {file for file in tmp_path.rglob("*") if file.is_file()}
    reader = pyvista.get_reader(path)
    assert reader.time_values == list(range(12))
    for index, step in enumerate(steps):
        reader.set_active_time_point(index)
        grid = reader.read()[0]
        np.testing.assert_array_equal(grid.point_data["u"], step.on_nodes["u"])
        np.testing.assert_array_equal(grid.cell_data["k"], step.on_cells["k"])
        assert grid.field_data["s"] == index


def test_a_field_of_another_mesh_is_refused_and_no_series_appears(tmp_path):
    points, cells = square()
    steps = [Step({"u": np.zeros(25)}), Step({"u": np.zeros(24)})]
    with pytest.raises(InputError, match="point field u"):
        write_series(tmp_path / "a.pvd", points, cells, steps)
    assert not (tmp_path / "a.pvd").exists()
