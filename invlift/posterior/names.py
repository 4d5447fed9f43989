"""Names of the draws that mean something to this layer; all others are scalars or vectors."""

#: Log-conductivity, which has more results than other fields; coefficients of a user's own model.
FIELD, PARAMETERS = "log_conductivity", "parameters"
#: Its exponential, which follows from its draws.
CONDUCTIVITY = "conductivity"
#: What solves the equation, at the nodes.
SOLUTION = "solution"
#: What stands between this and a time at which it is kept.
AT_TIME = "_at_"
#: The forward map at the sensors, and the noise variables that explain the readings.
PREDICTED, NOISE_SCORE = "predicted", "noise_score"
#: The noise's scale: one for all readings, one for each group of them, or one for each.
SIGMA = "sigma"
#: Readings, measured or new, in groups of files.
OBSERVED = "observed"
#: Coordinate of readings: the unit of each, "" if it has none.
UNITS = "units"
#: Of readings: the error of the mesh, in standard deviations of the noise.
MESH_ERROR = "mesh_error"
#: Coordinate of readings on a mesh: what each is of, if they are not all of the solution.
KIND = "kind"


def prior_sd_name(name: str) -> str:
    """What the prior standard deviation of a quantity is called in files of draws."""
    return "prior_sd" if name == FIELD else f"{name}_prior_sd"


def prior_density_name(name: str) -> str:
    """What the density of a quantity before the data is called in files of draws."""
    return f"{name}_prior_density"


def known_cells_name(name: str) -> str:
    """What the known values of a field in cells are called in files of draws."""
    return f"{name}_known"


def path_name(name: str) -> str:
    """What is kept of a model along the axis of the readings of a name, and beyond."""
    return f"{name}_path"


def vector_of(name: str) -> str:
    """Name of the vector that an entry such as "sigma[0]" is of; of any other scalar its own."""
    return name.rpartition("[")[0] or name
