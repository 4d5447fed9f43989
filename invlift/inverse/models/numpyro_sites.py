"""A NumPyro model as functions of standard normal variables: its sites, met one by one."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow.scan import scan_wrapper
from numpyro.primitives import Messenger

from invlift.errors import InputError, first_line
from invlift.inverse.axes import Axes, checked_axes
from invlift.inverse.distributions.base import log_normal
from invlift.inverse.distributions.of_numpyro import Coordinate, to_two_digits
from invlift.inverse.distributions.scores import WITH_ATOMS, centre_of, log_rest_of, score_of
from invlift.inverse.distributions.whitening import (
    coordinate_shape,
    exact_whitening,
    mask_of,
    unwrapped,
)

#: What draws hold beside the sites.
RESERVED = ("predicted", "noise_score")
#: NumPyro keeps its handlers in one list for all threads, and programs are made side by side.
ONE_AT_A_TIME = threading.RLock()
#: Draws of a site by which its coordinate is shifted and scaled.
NUM_DRAWS = 200


class Site(NamedTuple):
    """A site of a model.

    Attributes
    ----------
    name : str
    kind : str
        Name of its distribution.
    shape : tuple of int
        Of its value.
    axes : Axes
        Plates and other axes of the value, with numbers along them.
    size : int
        Number of standard normal variables of a latent site, or of scores of an observed one.
    coordinate : pair of tuples of float, or None
        Shift and scale of the variables of a latent site that is taken in a coordinate.
    num_event : int
        Number of last axes of an observed value that are of one event.
    used : tuple of int or None
        Events of an observed value that are not missing, in their flat order; None for all of them.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    axes: Axes
    size: int
    coordinate: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    num_event: int = 0
    used: tuple[int, ...] | None = None

    @property
    def kept(self) -> tuple[tuple[int, ...], Axes]:
        """Shape and axes of an observed value; of one with gaps, those of a list of its events."""
        if self.used is None:
            return self.shape, self.axes
        first = len(self.shape) - self.num_event
        events = ((f"{self.name}_used", self.used), *self.axes[first:])
        return (len(self.used), *self.shape[first:]), events

    def without_gaps(self, values: jax.Array) -> jax.Array:
        """An observed value, or what is of its shape, of the shape that is kept."""
        values = jnp.broadcast_to(values, self.shape)
        if self.used is None:
            return values
        shape = self.kept[0]
        return values.reshape(-1, *shape[1:])[np.asarray(self.used)]


class Sites(NamedTuple):
    """A model with what is known of its sites: it can be called at any values of the latent ones.

    Attributes
    ----------
    fn : callable
        The model, of no arguments.
    latent, observed : tuple of Site
        In their order.
    """

    fn: Callable[[], Any]
    latent: tuple[Site, ...]
    observed: tuple[Site, ...]

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        return sum(site.size for site in self.latent)

    @property
    def lifted(self) -> tuple[Site, ...]:
        """Observed sites with scores."""
        return tuple(site for site in self.observed if site.size)

    def at(self, white: jax.Array, data: Mapping[str, jax.Array]) -> Trace:
        """All that the model says at standard normal variables (m,) of readings by site."""
        walk = _Walk(self, white, data)
        self._run(walk)
        scores = [walk.scores[site.name] for site in self.lifted]
        centres = [walk.centres[site.name] for site in self.lifted]
        return Trace(
            walk.values, jnp.concatenate(scores), jnp.concatenate(centres), walk.log_reference
        )

    def draw(self, rng_key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Standard normal variables (m,) of a draw of the latent sites, and new readings."""
        drawn = _Draw(self, rng_key)
        self._run(drawn)
        return jnp.concatenate([drawn.white[site.name] for site in self.latent]), drawn.data

    def readings(self, data: Mapping[str, jax.Array]) -> jax.Array:
        """The readings that have scores, (d,), of all by site, one site after the other."""
        return jnp.concatenate([_used(site, data[site.name]) for site in self.lifted]).astype(float)

    @property
    def measured(self) -> tuple[Site, ...]:
        """Observed sites that are readings, and not ``numpyro.factor``."""
        return tuple(site for site in self.observed if site.kind != "Unit")

    def log_densities(self, values: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Log densities by observed site, of each event, at values of all sites by name."""
        found = self._met(values).items()
        return {name: _log_densities(site, msg) for name, (site, msg) in found}

    def new_readings(
        self, values: Mapping[str, jax.Array], rng_key: jax.Array
    ) -> dict[str, jax.Array]:
        """Readings by observed site, drawn anew at values of all sites by name."""
        found = self._met(values)
        keys = jax.random.split(rng_key, len(found))
        return {
            name: site.without_gaps(msg["fn"].sample(key))
            for (name, (site, msg)), key in zip(found.items(), keys, strict=True)
        }

    def _met(self, values):
        """The measured sites with what NumPyro knows of each at all values by name."""
        given = _Given(values)
        self._run(given)
        return {site.name: (site, given.met[site.name]) for site in self.measured}

    def _run(self, handler: Messenger) -> None:
        with ONE_AT_A_TIME, handlers.seed(rng_seed=0), handler:
            self.fn()


class Trace(NamedTuple):
    """What a model says at one point.

    Attributes
    ----------
    values : dict of arrays
        Of latent and deterministic sites, by name.
    scores, centres : (d,)
        Of the readings with scores, one site after the other; middles of their distributions.
    log_reference : ()
        Log density of all sites relative to that of standard normal variables and scores.
    """

    values: dict[str, jax.Array]
    scores: jax.Array
    centres: jax.Array
    log_reference: jax.Array


class _Filled(Messenger):
    """Gives the sites of a model their values; those within a scan one after the other.

    A subclass writes :meth:`value_of` and :meth:`meet`, and has the ``names`` of the sites.
    """

    names: Collection[str]

    def process_message(self, msg) -> None:
        if msg["type"] == "control_flow":
            self._enter(msg)
        elif msg["type"] == "sample" and msg["name"] in self.names:
            if not msg.get("_control_flow_done"):  # else it was given its value within
                msg["value"] = self.value_of(msg, None)
            self.meet(msg)

    def value_of(self, msg, index: jax.Array | None) -> jax.Array:
        """The value of a site, or that of one time of a site within a scan."""
        raise NotImplementedError

    def meet(self, msg) -> None:
        """Take note of a site that has its value; of one within a scan, those of all times."""
        raise NotImplementedError

    def _enter(self, msg):
        _, _, inputs, length, is_reversed = msg["args"]
        last = (np.shape(jax.tree.leaves(inputs)[0])[0] if length is None else length) - 1

        def value_of(each):
            if each["name"] not in self.names:
                raise InputError(
                    f"site {each['name']}, within a scan",
                    "the name that it has outside",
                    "another one, as scope or reparam are around the scan",
                    "move the handler into the function that is scanned",
                )
            index = each["infer"]["_scan_current_index"]
            return self.value_of(each, last - index if is_reversed else index)

        msg["kwargs"]["substitute_stack"].append(("substitute", value_of))


class _Given(_Filled):
    """Values by name, and the messages of their sites."""

    def __init__(self, values: Mapping[str, jax.Array]) -> None:
        super().__init__()
        self.names = self.values = jax.tree.map(jnp.asarray, dict(values))
        self.met = {}

    def value_of(self, msg, index):
        value = self.values[msg["name"]]
        return value if index is None else value[index]

    def meet(self, msg):
        self.met[msg["name"]] = msg


class _Walk(_Filled):
    """Gives each latent site its value, each observed one its readings, and adds up."""

    def __init__(self, sites: Sites, white: jax.Array, data: Mapping[str, jax.Array]) -> None:
        super().__init__()
        ends = np.cumsum([site.size for site in sites.latent])
        white = jnp.asarray(white)
        self.latent = {
            site.name: (site, white[end - site.size : end])
            for site, end in zip(sites.latent, ends, strict=True)
        }
        self.observed = {site.name: site for site in sites.observed}
        self.names = {*self.latent, *self.observed}
        self.data = jax.tree.map(jnp.asarray, dict(data))
        self.values, self.scores, self.centres = {}, {}, {}
        self.log_reference = jnp.zeros(())

    def postprocess_message(self, msg) -> None:
        if msg["type"] == "deterministic":
            self.values[msg["name"]] = jnp.asarray(msg["value"])

    def value_of(self, msg, index):
        if msg["name"] in self.observed:
            value = self.data[msg["name"]]
            return value if index is None else value[index]
        site, white = self.latent[msg["name"]]
        return _transformed(site, unwrapped(msg["fn"]), white, index)

    def meet(self, msg):
        if msg["name"] in self.observed:
            self._observe(self.observed[msg["name"]], msg)
            return
        site, white = self.latent[msg["name"]]
        given, value = unwrapped(msg["fn"]), msg["value"]
        if site.coordinate is not None:
            self.log_reference += _coordinate(site, given).log_reference(white)
        if msg["scale"] is not None:
            self.log_reference += (msg["scale"] - 1.0) * jnp.sum(given.log_prob(value))
        self.values[site.name] = value

    def _observe(self, site, msg):
        value, scale = msg["value"], msg["scale"]
        if site.size:
            self.scores[site.name] = scores = _used(site, score_of(msg["fn"], value))
            self.centres[site.name] = _used(site, centre_of(msg["fn"], value.shape))
            rest = log_rest_of(msg["fn"], value)
            if rest is not None and scale is None:
                self.log_reference += jnp.sum(_used(site, rest))
                return
            self.log_reference -= log_normal(scores)
        scale = 1.0 if scale is None else scale
        self.log_reference += scale * jnp.sum(msg["fn"].log_prob(value))


class _Draw(_Filled):
    """Draws each site from its distribution, and finds the variables that give the latent ones."""

    def __init__(self, sites: Sites, rng_key: jax.Array) -> None:
        super().__init__()
        self.latent = {site.name: site for site in sites.latent}
        self.names = [*self.latent, *(site.name for site in sites.observed)]
        keys = jax.random.split(rng_key, len(self.names))
        self.keys = dict(zip(self.names, keys, strict=True))
        self.white = {
            name: jax.random.normal(self.keys[name], (site.size,))
            for name, site in self.latent.items()
        }
        self.data = {}

    def value_of(self, msg, index):
        site = self.latent.get(msg["name"])
        if site is not None and site.coordinate is None:
            return _transformed(site, unwrapped(msg["fn"]), self.white[site.name], index)
        key = self.keys[msg["name"]]
        return msg["fn"].sample(key if index is None else jax.random.fold_in(key, index))

    def meet(self, msg):
        site = self.latent.get(msg["name"])
        if site is None:
            self.data[msg["name"]] = msg["value"]
        elif site.coordinate is not None:
            whitened = _coordinate(site, unwrapped(msg["fn"])).whiten(msg["value"])
            self.white[site.name] = whitened


def _transformed(
    site: Site, given: dist.Distribution, white: jax.Array, index: jax.Array | None
) -> jax.Array:
    """The value of a latent site at its variables, (size,), or that of one time of a scan."""
    shape = site.shape
    if index is not None:
        shape, white = shape[1:], white.reshape(shape[0], -1)[index]
    if site.coordinate is None:
        whitening = exact_whitening(given, shape)
        return whitening.transform(white.reshape(whitening.shape))
    coordinate = jnp.asarray(site.coordinate)
    if index is not None:
        coordinate = coordinate.reshape(2, site.shape[0], -1)[:, index]
    return _in_shape(given, shape, coordinate).transform(white)


def _coordinate(site: Site, given: dist.Distribution) -> Coordinate:
    """The coordinate of a latent site, of its distribution as it is now."""
    return _in_shape(given, site.shape, jnp.asarray(site.coordinate))


def _in_shape(given, shape, coordinate):
    return Coordinate(given, *coordinate.reshape(2, *coordinate_shape(given, shape)))


def _used(site: Site, values: jax.Array) -> jax.Array:
    """Entries of an observed value that have a score, (size,)."""
    return jnp.ravel(site.without_gaps(values))


def _log_densities(site: Site, msg) -> jax.Array:
    """Log density of each event of an observed site that is not missing."""
    logs = msg["fn"].log_prob(msg["value"])
    return logs if site.used is None else jnp.ravel(logs)[np.asarray(site.used)]


# What a model's sites are -------------------------------------------------------------------------


def find_sites(fn: Callable[[], Any]) -> tuple[Sites, dict[str, np.ndarray]]:
    """The sites of a model, and the observed values by site.

    Parameters
    ----------
    fn : callable
        The model, of no arguments.

    Returns
    -------
    sites : Sites
    data : dict of arrays

    Raises
    ------
    InputError
        If a latent site is discrete or has no proper distribution, a plate takes part of its data,
        a value is missing or outside its support, there are no latent sites, or none of the
        observed ones has a continuous distribution whose score is known; or if the model cannot be
        run.
    """
    found = _traced(fn)
    latent, observed, data = [], [], {}
    for name, msg in found.items():
        where = f"site {name}"
        if name in RESERVED:
            raise InputError(where, "another name", "one that draws have already", "rename it")
        if msg["type"] == "plate":
            _check_plate(name, msg)
        elif msg["type"] == "param":
            raise InputError(
                where,
                "sample sites alone",
                "numpyro.param",
                "give it a distribution, or its value",
            )
        elif msg["type"] == "sample" and msg["is_observed"]:
            site, value = _observed_site(where, msg)
            observed.append(site)
            data[name] = value
        elif msg["type"] == "sample":
            latent.append(_latent_site(where, msg))
    _check_some(latent, observed)
    sites = Sites(fn, tuple(latent), tuple(observed))
    return sites._replace(latent=tuple(_centred(sites))), data


class _Refusal(Messenger):
    """Stops at what has no draw, or sites of its own."""

    def process_message(self, msg) -> None:
        if msg["type"] == "control_flow" and msg["fn"] is not scan_wrapper:
            raise InputError(
                "model",
                "sites that do not depend on values",
                "a cond of NumPyro",
                "sample outside of it, and use jax.lax.cond or jnp.where",
            )
        is_latent = msg["type"] == "sample" and not msg["is_observed"]
        if is_latent and isinstance(unwrapped(msg["fn"]), dist.ImproperUniform):
            raise InputError(
                f"site {msg['name']}",
                "a proper distribution",
                "ImproperUniform",
                "give it a wide one that can be drawn from",
            )


def _traced(fn):
    try:
        with ONE_AT_A_TIME, _Refusal():
            return handlers.trace(handlers.seed(fn, rng_seed=0)).get_trace()
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            "model",
            "a NumPyro model that runs with these arguments",
            first_line(error),
            "correct it, or give it the arguments that MCMC.run would be given",
        ) from error


def _check_plate(name, msg):
    size, part = msg["args"]
    if part is not None and part != size:
        raise InputError(
            f"plate {name}",
            "all of its data",
            f"{part} of {size} at a time",
            "leave out subsample_size",
        )


def _check_some(latent, observed):
    if not latent:
        raise InputError(
            "model", "at least one latent site", "none", "sample what is unknown, without obs"
        )
    if not any(site.size for site in observed):
        found = ", ".join(f"{site.name} ({site.kind})" for site in observed) or "no observed site"
        raise InputError(
            "model",
            "at least one observed site with a continuous distribution",
            found,
            "there is nothing to lift: sample it by NumPyro's own NUTS",
        )


def _axes(where: str, msg, shape: tuple[int, ...], num_event: int) -> Axes:
    """Plates by their names, other axes numbered."""
    names = [f"{msg['name']}_dim_{axis}" for axis in range(len(shape))]
    for frame in msg["cond_indep_stack"]:
        axis = len(shape) - num_event + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    return checked_axes(where, dict(zip(names, map(range, shape), strict=True)), shape)


def _latent_site(where: str, msg) -> Site:
    given, name = unwrapped(msg["fn"]), msg["name"]
    kind = type(given).__name__
    if given.support is None or given.support.is_discrete:
        raise InputError(
            where,
            "a continuous distribution, or an observed value",
            f"{kind}, which is discrete",
            "sum over its values, or give it a continuous distribution",
        )
    if isinstance(given, WITH_ATOMS):
        raise InputError(
            where,
            "a distribution with a density, or an observed value",
            f"{kind}, of which single values have a probability",
            "use numpyro.deterministic for what is known, and else a distribution without them",
        )
    if mask_of(msg["fn"]) is False:
        raise InputError(
            where,
            "a distribution that counts, or an observed value",
            "one that is masked, so that another site has its density",
            "leave out the mask, or NeuTraReparam",
        )
    shape = tuple(np.shape(msg["value"]))
    exact = exact_whitening(given, shape)
    try:
        white = coordinate_shape(given, shape) if exact is None else exact.shape
    except NotImplementedError as error:
        raise InputError(
            where,
            "a distribution whose support NumPyro maps to real numbers",
            f"{kind}, on a support without such a map",
            "transform another one, or use a reparametrisation of NumPyro",
        ) from error
    size, axes = math.prod(white), _axes(where, msg, shape, len(msg["fn"].event_shape))
    return Site(name, kind, shape, axes, size, None if exact else ((0.0,) * size, (1.0,) * size))


def _observed_site(where: str, msg) -> tuple[Site, np.ndarray]:
    given, name = msg["fn"], msg["name"]
    kind = type(unwrapped(given)).__name__
    if kind == "Unit":  # numpyro.factor
        return Site(name, kind, np.shape(msg["value"]), (), 0), np.asarray(msg["value"])
    shape = jnp.broadcast_shapes(np.shape(msg["value"]), given.shape())
    value = np.broadcast_to(np.asarray(msg["value"]), shape)
    num_event = len(given.event_shape)
    is_used = np.broadcast_to(np.asarray(mask_of(given)), shape)
    _check_value(where, unwrapped(given), value, is_used)
    axes = _axes(where, msg, shape, num_event)
    events = is_used.reshape(-1, math.prod(shape[len(shape) - num_event :]))
    filled, used = value, None
    if not is_used.all():  # derivatives of scores of NaN would be NaN
        filled = np.where(is_used, value, unwrapped(given).support.feasible_like(value))
        used = tuple(np.flatnonzero(events.any(axis=1)).tolist())
    scores = score_of(given, jnp.asarray(filled))
    is_whole = events.any() and np.all(events.any(axis=1) == events.all(axis=1))
    if not is_whole or scores is None or not np.all(np.isfinite(scores)):
        return Site(name, kind, shape, axes, 0), value
    return Site(name, kind, shape, axes, int(is_used.sum()), None, num_event, used), filled


def _check_value(where, given, value, is_used):
    bad = np.argwhere(is_used & ~np.isfinite(value))
    if not len(bad):
        inside = np.asarray(given.support(jnp.asarray(value)))
        inside = inside.reshape(inside.shape + (1,) * (value.ndim - inside.ndim))
        bad = np.argwhere(is_used & ~inside)
    if len(bad):
        at = f" at index {', '.join(map(str, bad[0]))}" if value.ndim else ""
        raise InputError(
            where,
            "finite values in the support of its distribution",
            f"{value[tuple(bad[0])]:g}{at}",
            "correct it, or leave it out by obs_mask or handlers.mask",
        )


def _centred(sites: Sites) -> list[Site]:
    """The latent sites, with the shift and scale of those that are taken in a coordinate."""
    if all(site.coordinate is None for site in sites.latent):
        return list(sites.latent)
    white = jax.jit(jax.vmap(lambda key: sites.draw(key)[0]))(
        jax.random.split(jax.random.key(0), NUM_DRAWS)
    )
    ends = np.cumsum([site.size for site in sites.latent])
    found = []
    for site, end in zip(sites.latent, ends, strict=True):
        if site.coordinate is not None:
            free = np.asarray(white[:, end - site.size : end])
            low, centre, high = np.quantile(free, [0.1587, 0.5, 0.8413], axis=0)
            coordinate = (to_two_digits(each) for each in (centre, 0.5 * (high - low)))
            site = site._replace(coordinate=tuple(tuple(each.tolist()) for each in coordinate))
        found.append(site)
    return found
