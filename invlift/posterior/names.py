"""Names of draws with a special meaning in this layer; all others are scalars or vectors."""

#: Log-conductivity, which has more results than other fields; coefficients of a user's model.
FIELD, PARAMETERS = "log_conductivity", "parameters"
#: Exponential of the log-conductivity, computed from its draws.
CONDUCTIVITY = "conductivity"
#: Solution of the equation, at the nodes.
SOLUTION = "solution"
#: Separator between the name of a solution and the time at which it is stored.
AT_TIME = "_at_"
#: The forward map at the sensors, and the noise variables that explain the readings.
PREDICTED, NOISE_SCORE = "predicted", "noise_score"
#: Scale of the noise: one for all readings, one per group of readings, or one per reading.
SIGMA = "sigma"
#: Measured or new readings, in the groups of a file of draws.
OBSERVED = "observed"
#: Coordinate of readings: the unit of each, "" if it has none.
UNITS = "units"
#: Censoring of readings, "<", ">" or "", in files of draws.
LIMITS = "sensor_limits"
#: Error of the mesh in the readings, in standard deviations of the noise.
MESH_ERROR = "mesh_error"
#: Coordinate of readings on a mesh: the kind of each, if not all read the solution.
KIND = "kind"
#: Coordinates of readings on a mesh: the second point of a difference.
SECOND_PLACE = "x2", "y2", "z2"
#: Coordinates of readings on a mesh that say what is read, beside the place.
WHAT_IS_READ = (KIND, "over", "radius", *SECOND_PLACE)


def prior_sd_name(name: str) -> str:
    """Return the name of the prior standard deviation of a quantity in files of draws."""
    return "prior_sd" if name == FIELD else f"{name}_prior_sd"


def prior_density_name(name: str) -> str:
    """Return the name of the prior density of a quantity in files of draws."""
    return f"{name}_prior_density"


def known_cells_name(name: str) -> str:
    """Return the name of the known values of a field in cells in files of draws."""
    return f"{name}_known"


def path_name(name: str) -> str:
    """Return the name of the prediction along the axis of the readings `name`, and beyond them."""
    return f"{name}_path"


def vector_of(name: str) -> str:
    """Return the name of the vector of an entry such as "sigma[0]"; other names are unchanged."""
    return name.rpartition("[")[0] or name
