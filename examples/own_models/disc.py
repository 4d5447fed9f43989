"""The disc of ../disc/problem.toml, put together in Python."""

from pathlib import Path

import invlift

HERE = Path(__file__).parent

mesh = invlift.read_mesh(HERE / "../../meshes/disc.msh")
sensors = invlift.read_sensors(HERE / "../disc/sensors.csv", mesh.dim)
observation = invlift.locate(mesh, sensors)
prior = invlift.matern_prior(mesh, range=1.0, std=1.0, smoothness=2.0)
model = invlift.assemble_poisson(mesh, observation, source=100.0, dirichlet={"boundary": 0.0})
noise = invlift.gaussian_noise(invlift.lognormal(location=0.0, scale=3.0))
problem = invlift.inverse_problem(model, prior, noise, sensors.values)
