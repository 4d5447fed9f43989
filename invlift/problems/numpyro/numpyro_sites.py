"""A NumPyro model as functions of standard normal variables, evaluated site by site."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.primitives import Messenger

from invlift.errors import InputError
from invlift.unknowns.axes import Axes
from invlift.unknowns.distributions.base import log_normal
from invlift.unknowns.distributions.of_numpyro import Coordinate
from invlift.unknowns.distributions.scores import (
    centre_of,
    log_rest_of,
    normal_score_of,
    score_of,
)
from invlift.unknowns.distributions.whitening import (
    coordinate_shape,
    exact_whitening,
    mask_of,
    unwrapped,
)

#: Names that draws hold beside the sites.
RESERVED = ("predicted", "noise_score")
#: NumPyro keeps its handlers in one list for all threads, but programs are traced in parallel.
ONE_AT_A_TIME = threading.RLock()


class Site(NamedTuple):
    """A site of a model.

    Attributes
    ----------
    name : str
    kind : str
        Name of its distribution.
    shape : tuple of int
        Shape of its value.
    axes : Axes
        Plates and other axes of the value, with numbers along them.
    size : int
        Number of standard normal variables of a latent site, or of scores of an observed one.
    coordinate : pair of tuples of float, or None
        Shift and scale of the variables of a latent site that has no exact whitening.
    num_event : int
        Number of trailing axes of an observed value that belong to one event.
    used : tuple of int or None
        Flat indices of the events of an observed value that are not missing; None for all.
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
        """Shape and axes of an observed value, or of the list of its events if some are missing."""
        if self.used is None:
            return self.shape, self.axes
        first = len(self.shape) - self.num_event
        events = ((f"{self.name}_used", self.used), *self.axes[first:])
        return (len(self.used), *self.shape[first:]), events

    def without_gaps(self, values: jax.Array) -> jax.Array:
        """Remove missing events from an array of the observed value's shape."""
        values = jnp.broadcast_to(values, self.shape)
        if self.used is None:
            return values
        shape = self.kept[0]
        return values.reshape(-1, *shape[1:])[np.asarray(self.used)]


class Sites(NamedTuple):
    """A model with its latent and observed sites, which can be evaluated at any latent values.

    Attributes
    ----------
    fn : callable
        The model, without arguments.
    latent, observed : tuple of Site
        In the order of the model.
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

    def split(self, white: jax.Array) -> list[jax.Array]:
        """Split standard normal variables (m,) into those of each latent site, (size,) each."""
        return jnp.split(white, np.cumsum([site.size for site in self.latent])[:-1])

    def at(self, white: jax.Array, data: Mapping[str, jax.Array]) -> Trace:
        """Evaluate the model at standard normal variables (m,), with readings by site."""
        return self.at_parts(self.split(white), data)

    def at_parts(self, parts: Sequence[jax.Array], data: Mapping[str, jax.Array]) -> Trace:
        """Evaluate the model as :meth:`at`, at the variables of each latent site."""
        return self._traced(self._walked(parts, data))

    def described(self, white: jax.Array, data: Mapping[str, jax.Array]) -> Trace:
        """Evaluate the model as :meth:`at`, with the normal scores of readings as scores, (d,).

        See :func:`~invlift.unknowns.distributions.scores.normal_score_of`.
        """
        walk = self._walked(self.split(white), data)
        for site in self.lifted:
            normal = normal_score_of(walk.given[site.name], walk.data[site.name])
            if normal is not None:
                walk.scores[site.name] = _used(site, normal)
        return self._traced(walk)

    def _walked(self, parts, data) -> _Walk:
        walk = _Walk(self, parts, data)
        self._run(walk)
        return walk

    def _traced(self, walk: _Walk) -> Trace:
        scores = [walk.scores[site.name] for site in self.lifted]
        centres = [walk.centres[site.name] for site in self.lifted]
        return Trace(
            walk.values, jnp.concatenate(scores), jnp.concatenate(centres), walk.log_reference
        )

    def masks(self, white: jax.Array, data: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Return masks that are arrays of sites with scores, (k,) by name, at variables (m,)."""
        walk = self._walked(self.split(white), data)
        masks = {site.name: mask_of(walk.given[site.name]) for site in self.lifted}
        return {name: jnp.ravel(mask) for name, mask in masks.items() if mask is not True}

    def draw(self, rng_key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Draw the latent sites, as standard normal variables (m,), and new readings."""
        drawn = _Draw(self, rng_key)
        self._run(drawn)
        return jnp.concatenate([drawn.white[site.name] for site in self.latent]), drawn.data

    def readings(self, data: Mapping[str, jax.Array]) -> jax.Array:
        """Return the readings that have scores, (d,), one site after the other."""
        return jnp.concatenate([_used(site, data[site.name]) for site in self.lifted]).astype(float)

    @property
    def measured(self) -> tuple[Site, ...]:
        """Observed sites that are readings, and not ``numpyro.factor``."""
        return tuple(site for site in self.observed if site.kind != "Unit")

    def log_densities(self, values: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Return the log density of each event by observed site, at values of all sites by name."""
        messages = self._met(values).items()
        return {name: _log_densities(site, msg) for name, (site, msg) in messages}

    def new_readings(
        self, values: Mapping[str, jax.Array], rng_key: jax.Array
    ) -> dict[str, jax.Array]:
        """Draw new readings by observed site, at values of all sites by name."""
        messages = self._met(values)
        keys = jax.random.split(rng_key, len(messages))
        return {
            name: site.without_gaps(msg["fn"].sample(key))
            for (name, (site, msg)), key in zip(messages.items(), keys, strict=True)
        }

    def _met(self, values):
        """Return each measured site and NumPyro's message of it, at values of all sites by name."""
        given = _Given(values)
        self._run(given)
        return {site.name: (site, given.met[site.name]) for site in self.measured}

    def _run(self, handler: Messenger) -> None:
        with ONE_AT_A_TIME, handlers.seed(rng_seed=0), handler:
            self.fn()


class Trace(NamedTuple):
    """Values, scores and log density of a model at one point.

    Attributes
    ----------
    values : dict of arrays
        Values of latent and deterministic sites, by name.
    scores, centres : (d,)
        Scores of the readings that have them, one site after the other, and middles of their
        distributions.
    log_reference : ()
        Log density of all sites relative to that of standard normal variables and scores.
    """

    values: dict[str, jax.Array]
    scores: jax.Array
    centres: jax.Array
    log_reference: jax.Array


class _Filled(Messenger):
    """Handler that sets the values of a model's sites; within a scan, at one time after the other.

    A subclass implements :meth:`value_of` and :meth:`meet`, and has the ``names`` of the sites.
    """

    names: Collection[str]

    def process_message(self, msg) -> None:
        if msg["type"] == "control_flow":
            self._enter(msg)
        elif msg["type"] == "sample" and msg["name"] in self.names:
            if not msg.get("_control_flow_done"):  # else its value was set within the scan
                msg["value"] = self.value_of(msg, None)
            self.meet(msg)

    def value_of(self, msg, index: jax.Array | None) -> jax.Array:
        """Return the value of a site; within a scan, its value at one time."""
        raise NotImplementedError

    def meet(self, msg) -> None:
        """Record a site after its value is set; after a scan, with the values of all times."""
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
    """Handler that sets values given by name, and records the messages of their sites."""

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
    """Handler that sets latent values and readings, and adds up scores and log density."""

    def __init__(
        self, sites: Sites, parts: Sequence[jax.Array], data: Mapping[str, jax.Array]
    ) -> None:
        super().__init__()
        self.latent = {
            site.name: (site, scores) for site, scores in zip(sites.latent, parts, strict=True)
        }
        self.observed = {site.name: site for site in sites.observed}
        self.names = {*self.latent, *self.observed}
        self.data = jax.tree.map(jnp.asarray, dict(data))
        self.values, self.scores, self.centres, self.given = {}, {}, {}, {}
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
            self.given[site.name] = msg["fn"]
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
    """Handler that draws each site, and computes the standard normal variables of latent sites."""

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
    """Return the value of a latent site at its variables, (size,); in a scan, at one time."""
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
    """Return the coordinate of a latent site for its current distribution."""
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
