"""A NumPyro model as functions of standard normal variables: its sites, met one by one."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.primitives import Messenger

from invlift.errors import InputError, first_line
from invlift.inverse.axes import Axes, checked_axes
from invlift.inverse.distributions.base import log_normal
from invlift.inverse.distributions.of_numpyro import Coordinate, to_two_digits
from invlift.inverse.distributions.whitening import (
    centre_of,
    coordinate_shape,
    exact_whitening,
    mask_of,
    score_of,
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
    used : tuple of int or None
        Entries of an observed value that have a score, in its flat order; None for all of them.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    axes: Axes
    size: int
    coordinate: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    used: tuple[int, ...] | None = None


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
        with ONE_AT_A_TIME, handlers.seed(rng_seed=0), walk:
            self.fn()
        scores = [walk.scores[site.name] for site in self.lifted]
        centres = [walk.centres[site.name] for site in self.lifted]
        return Trace(
            walk.values, jnp.concatenate(scores), jnp.concatenate(centres), walk.log_reference
        )

    def draw(self, rng_key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Standard normal variables (m,) of a draw of the latent sites, and new readings."""
        drawn = _Draw(self, rng_key)
        with ONE_AT_A_TIME, handlers.seed(rng_seed=0), drawn:
            self.fn()
        return jnp.concatenate([drawn.white[site.name] for site in self.latent]), drawn.data

    def readings(self, data: Mapping[str, jax.Array]) -> jax.Array:
        """The readings that have scores, (d,), of all by site, one site after the other."""
        return jnp.concatenate([_used(site, data[site.name]) for site in self.lifted]).astype(float)

    def log_densities(self, values: Mapping[str, jax.Array]) -> jax.Array | None:
        """Log density of each lifted reading, (d,), at latent values by name.

        None where several readings have one density.
        """
        found = self._lifted_at(values)
        if any(msg["fn"].event_shape for _, msg in found):
            return None
        logs = [_used(site, msg["fn"].log_prob(msg["value"])) for site, msg in found]
        return jnp.concatenate(logs)

    def new_readings(self, values: Mapping[str, jax.Array], rng_key: jax.Array) -> jax.Array:
        """Lifted readings drawn anew, (d,), at latent values by name."""
        found = self._lifted_at(values)
        keys = jax.random.split(rng_key, len(found))
        drawn = [_used(s, m["fn"].sample(key)) for (s, m), key in zip(found, keys, strict=True)]
        return jnp.concatenate(drawn)

    def _lifted_at(self, values):
        """The lifted sites with what NumPyro knows of each at latent values by name."""
        with ONE_AT_A_TIME:
            found = handlers.trace(
                handlers.substitute(handlers.seed(self.fn, rng_seed=0), data=dict(values))
            ).get_trace()
        return [(site, found[site.name]) for site in self.lifted]


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


class _Walk(Messenger):
    """Gives each latent site its value, each observed one its readings, and adds up."""

    def __init__(self, sites: Sites, white: jax.Array, data: Mapping[str, jax.Array]) -> None:
        super().__init__()
        ends = np.cumsum([site.size for site in sites.latent])
        self.white = {
            site.name: (site, white[end - site.size : end])
            for site, end in zip(sites.latent, ends, strict=True)
        }
        self.observed = {site.name: site for site in sites.observed}
        self.data = data
        self.values, self.scores, self.centres = {}, {}, {}
        self.log_reference = jnp.zeros(())

    def process_message(self, msg) -> None:
        if msg["type"] != "sample":
            return
        if msg["name"] in self.observed:
            self._observe(self.observed[msg["name"]], msg)
        elif msg["name"] in self.white:
            self._give(*self.white[msg["name"]], msg)

    def postprocess_message(self, msg) -> None:
        if msg["type"] == "deterministic":
            self.values[msg["name"]] = jnp.asarray(msg["value"])

    def _give(self, site, white, msg):
        given = unwrapped(msg["fn"])
        if site.coordinate is None:
            whitening = exact_whitening(given, site.shape)
            value = whitening.transform(white.reshape(whitening.shape))
        else:
            coordinate = _coordinate(site, given)
            value = coordinate.transform(white)
            self.log_reference += coordinate.log_reference(white)
        if msg["scale"] is not None:
            self.log_reference += (msg["scale"] - 1.0) * jnp.sum(given.log_prob(value))
        msg["value"] = self.values[site.name] = value

    def _observe(self, site, msg):
        msg["value"] = value = self.data[site.name]
        scale = 1.0 if msg["scale"] is None else msg["scale"]
        self.log_reference += scale * jnp.sum(msg["fn"].log_prob(value))
        if site.size:
            scores = _used(site, score_of(msg["fn"], value))
            self.log_reference -= log_normal(scores)
            self.scores[site.name] = scores
            self.centres[site.name] = _used(site, centre_of(msg["fn"], value.shape))


class _Draw(Messenger):
    """Draws each site from its distribution, and finds the variables that give the latent ones."""

    def __init__(self, sites: Sites, rng_key: jax.Array) -> None:
        super().__init__()
        self.key = rng_key
        self.latent = {site.name: site for site in sites.latent}
        self.observed = {site.name for site in sites.observed}
        self.white, self.data = {}, {}

    def process_message(self, msg) -> None:
        if msg["type"] != "sample" or msg["name"] not in {*self.latent, *self.observed}:
            return
        self.key, key = jax.random.split(self.key)
        if msg["name"] in self.observed:
            msg["value"] = self.data[msg["name"]] = msg["fn"].sample(key)
            return
        site, given = self.latent[msg["name"]], unwrapped(msg["fn"])
        if site.coordinate is None:
            whitening = exact_whitening(given, site.shape)
            white = jax.random.normal(key, whitening.shape)
            value = whitening.transform(white)
        else:
            value = msg["fn"].sample(key)
            white = _coordinate(site, given).whiten(value)
        self.white[site.name] = jnp.ravel(white)
        msg["value"] = value


def _coordinate(site: Site, given: dist.Distribution) -> Coordinate:
    """The coordinate of a latent site, of its distribution as it is now."""
    shape = coordinate_shape(given, site.shape)
    return Coordinate(given, *(jnp.reshape(jnp.asarray(each), shape) for each in site.coordinate))


def _used(site: Site, values: jax.Array) -> jax.Array:
    """Entries of an observed value that have a score, (size,)."""
    values = jnp.ravel(jnp.broadcast_to(values, site.shape))
    return values if site.used is None else values[np.asarray(site.used)]


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
        if msg["type"] == "control_flow":
            raise InputError(
                "model",
                "sites that are met one by one",
                "a scan of NumPyro",
                "write the loop in Python, or sample increments as one site and use jax.lax.scan",
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
    shape = tuple(np.shape(msg["value"]))
    exact = exact_whitening(given, shape)
    white = coordinate_shape(given, shape) if exact is None else exact.shape
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
    is_used = _spread(np.asarray(mask_of(given)), shape, num_event)
    _check_value(where, unwrapped(given), value, is_used)
    axes = _axes(where, msg, shape, num_event)
    scores = score_of(given, jnp.asarray(value))
    if scores is None or not np.all(np.isfinite(np.where(is_used, scores, 0.0))):
        return Site(name, kind, shape, axes, 0), value
    used = None if is_used.all() else tuple(np.flatnonzero(is_used).tolist())
    return Site(name, kind, shape, axes, int(is_used.sum()), None, used), value


def _spread(mask, shape, num_event):
    """A mask of a batch, for each entry of a value."""
    return np.broadcast_to(np.reshape(mask, np.shape(mask) + (1,) * num_event), shape)


def _check_value(where, given, value, is_used):
    bad = np.argwhere(is_used & ~np.isfinite(value))
    if not len(bad):
        inside = np.asarray(given.support(jnp.asarray(value)))
        bad = np.argwhere(is_used & ~_spread(inside, value.shape, value.ndim - inside.ndim))
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
