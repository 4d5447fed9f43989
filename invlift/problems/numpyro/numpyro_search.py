"""Search for the sites of a NumPyro model; sites that are not supported are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow.scan import scan_wrapper
from numpyro.primitives import Messenger

from invlift.errors import InputError, as_input_error
from invlift.models.named_readings import check_columns
from invlift.problems.numpyro.numpyro_sites import ONE_AT_A_TIME, RESERVED, Site, Sites
from invlift.programs.dependence import spread
from invlift.unknowns.axes import RESERVED_AXES, Axes, checked_axes
from invlift.unknowns.distributions.of_numpyro import centre_and_spread
from invlift.unknowns.distributions.scores import WITH_ATOMS, score_of
from invlift.unknowns.distributions.whitening import (
    coordinate_shape,
    exact_whitening,
    mask_of,
    unwrapped,
)

#: Draws of the latent sites; at one of them the observed values must be in their support.
NUM_TRIES = 20
#: Draws of a site that determine shift and scale of its coordinate.
NUM_DRAWS = 200


def find_sites(fn: Callable[[], Any]) -> tuple[Sites, dict[str, np.ndarray]]:
    """Find the sites of a model, and the observed values by site.

    Parameters
    ----------
    fn : callable
        The model, without arguments.

    Returns
    -------
    sites : Sites
    data : dict of arrays

    Raises
    ------
    InputError
        If a latent site is discrete or has no proper distribution, a plate takes part of its data,
        a value is missing, outside its support or changed by a latent site, there are no latent
        sites, or none of the observed ones has a continuous distribution whose score is known; or
        if the model cannot be run.
    """
    for seed in range(NUM_TRIES - 1):
        try:
            return _sites_at(fn, seed)
        except _Outside:  # outside the support at this draw of the latent sites
            continue
    return _sites_at(fn, NUM_TRIES - 1)


class _Outside(Exception):
    """Raised if a value has no score at a draw of the latent sites, but may have one at another."""


def _sites_at(fn, seed: int) -> tuple[Sites, dict[str, np.ndarray]]:
    """Find the sites from one draw; at the last draw, raise the errors of :func:`find_sites`."""
    latent, observed, data, given, masked = [], [], {}, {}, {}
    for name, msg in _traced(fn, seed).items():
        where = f"site {name}"
        if name in (*RESERVED, *RESERVED_AXES):
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
            site, value = _observed_site(where, msg, is_last=seed == NUM_TRIES - 1)
            observed.append(site)
            data[name], given[name] = value, msg["value"]
        elif msg["type"] == "sample":
            latent.append(_latent_site(where, msg))
            masked[name] = _is_masked(msg, latent[-1])
    _check_given(given, _traced(fn, NUM_TRIES))
    sites, moving = _with_fixed_masks(Sites(fn, tuple(latent), tuple(observed)), data)
    data |= {name: np.broadcast_to(given[name], data[name].shape) for name in moving}
    _check_some(latent, sites.observed)
    _check_masked(sites, data, masked)
    return sites._replace(latent=tuple(_centred(sites))), data


class _Refusal(Messenger):
    """Handler that refuses improper distributions, and control flow other than scan."""

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


def _traced(fn, seed: int):
    expected = "a NumPyro model that runs with these arguments"
    remedy = "correct it, or give it the arguments that MCMC.run would be given"
    with as_input_error("model", expected, remedy), ONE_AT_A_TIME, _Refusal():
        return handlers.trace(handlers.seed(fn, rng_seed=seed)).get_trace()


def _check_plate(name, msg):
    size, part = msg["args"]
    if part is not None and part != size:
        raise InputError(
            f"plate {name}",
            "all of its data",
            f"{part} of {size} at a time",
            "leave out subsample_size",
        )


def _check_given(given, other):
    """Refuse observed values that another draw of the latent sites changes."""
    for name, value in given.items():
        is_met = name in other  # a model that branches is refused elsewhere
        if is_met and not np.array_equal(value, other[name]["value"], equal_nan=True):
            raise InputError(
                f"site {name}",
                "an observed value that no latent site changes",
                "one that differs from draw to draw",
                "observe the readings themselves, and put what is subtracted into the distribution",
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


def _is_masked(msg, site: Site) -> np.ndarray:
    """Return which variables of a latent site, (size,), are those of masked values."""
    given = msg["fn"]
    batch = site.shape[: len(site.shape) - given.event_dim]
    mask = mask_of(given)
    if not isinstance(mask, bool):  # without axes of an event, whose variables may have others
        mask = mask.reshape(mask.shape[: mask.ndim - given.event_dim])
    return np.repeat(~np.broadcast_to(mask, batch).ravel(), site.size // math.prod(batch))


def _check_masked(sites: Sites, data, masked: dict[str, np.ndarray]) -> None:
    """Refuse masked latent values on which a reading depends: here they have their prior."""

    def logs(white):
        found = sites.log_densities(sites.at(white, data).values | data)
        return jnp.concatenate([jnp.ravel(each) for each in found.values()])

    rng = np.random.default_rng(0)
    for site, own in zip(sites.latent, sites.split(jnp.arange(sites.num_white)), strict=True):
        if not masked[site.name].any():
            continue
        along = np.zeros(sites.num_white)
        along[own] = masked[site.name] * rng.standard_normal(site.size)
        at = rng.standard_normal((NUM_TRIES, sites.num_white))
        slopes = jax.vmap(lambda white, along=along: jax.jvp(logs, (white,), (along,))[1])(at)
        if np.any(np.nan_to_num(slopes)):
            raise InputError(
                f"site {site.name}",
                "a mask of values on which no observed site depends, as they keep their prior",
                "one of values on which an observed site depends",
                "leave out the mask, and give them a wide distribution",
            )


def _with_fixed_masks(sites: Sites, data: dict[str, np.ndarray]) -> tuple[Sites, list[str]]:
    """Return the sites, and names of observed ones whose mask depends on latent ones.

    These stay in the density: which of their readings are in use differs from draw to draw.
    """
    white = jnp.zeros(sites.num_white)
    masks = sites.masks(white, data) if sites.latent and sites.lifted else {}
    moving = []
    for name in masks:

        def mask(white, name=name):
            return sites.masks(white, data)[name]

        least, most = spread(mask, white, np.zeros((1, white.size), int))
        moving += [name] if np.any(least <= most) else []
    observed = (
        site._replace(size=0, num_event=0, used=None) if site.name in moving else site
        for site in sites.observed
    )
    return sites._replace(observed=tuple(observed)), moving


def _axes(where: str, msg, shape: tuple[int, ...], num_event: int) -> Axes:
    """Return the axes of a value: plates by name, other axes numbered."""
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
            "a latent site that is not masked, or an observed value",
            "a masked one, whose density is in another site",
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


def _observed_site(where: str, msg, *, is_last: bool) -> tuple[Site, np.ndarray]:
    given, name = msg["fn"], msg["name"]
    kind = type(unwrapped(given)).__name__
    if kind == "Unit":  # numpyro.factor
        return Site(name, kind, np.shape(msg["value"]), (), 0), np.asarray(msg["value"])
    value = _numbers(where, given, msg["value"])
    shape = value.shape
    num_event = len(given.event_shape)
    is_used = np.broadcast_to(np.asarray(mask_of(given)), shape)
    _check_value(where, unwrapped(given), value, is_used, is_last)
    axes = _axes(where, msg, shape, num_event)
    check_columns(where, axes)
    events = is_used.reshape(-1, math.prod(shape[len(shape) - num_event :]))
    filled, used = value, None
    if not is_used.all():  # derivatives of scores of NaN would be NaN
        filled = np.where(is_used, value, unwrapped(given).support.feasible_like(value))
        used = tuple(np.flatnonzero(events.any(axis=1)).tolist())
    scores = score_of(given, jnp.asarray(filled))
    if scores is not None and not is_last and not np.all(np.isfinite(scores)):
        raise _Outside
    is_whole = events.any() and np.all(events.any(axis=1) == events.all(axis=1))
    if not is_whole or scores is None or not np.all(np.isfinite(scores)):
        return Site(name, kind, shape, axes, 0), value
    return Site(name, kind, shape, axes, int(is_used.sum()), None, num_event, used), filled


def _numbers(where, given, value):
    """Return an observed value, broadcast to the shape of its distribution."""
    value = np.asarray(value)
    if value.dtype.kind not in "biuf":
        raise InputError(where, "numbers", f"an array of {value.dtype}", "give it numbers")
    try:
        return np.broadcast_to(value, np.broadcast_shapes(value.shape, given.shape()))
    except ValueError as error:
        raise InputError(
            where,
            f"values that fit the distribution's shape {given.shape()}",
            f"those of shape {value.shape}",
            "give as many as the model has parameters for",
        ) from error


def _check_value(where, given, value, is_used, is_last):
    bad = np.argwhere(is_used & ~np.isfinite(value))
    if not len(bad):
        inside = np.asarray(given.support(jnp.asarray(value)))
        inside = inside.reshape(inside.shape + (1,) * (value.ndim - inside.ndim))
        bad = np.argwhere(is_used & ~inside)
        if len(bad) and not is_last:
            raise _Outside
    if len(bad):
        at = f" at index {', '.join(map(str, bad[0]))}" if value.ndim else ""
        raise InputError(
            where,
            f"finite values in the support of its distribution at one of {NUM_TRIES} prior draws",
            f"{value[tuple(bad[0])]:g}{at}",
            "correct it, or leave it out by obs_mask or handlers.mask",
        )


def _centred(sites: Sites) -> list[Site]:
    """Return the latent sites, with shift and scale of those that have a coordinate."""
    if all(site.coordinate is None for site in sites.latent):
        return list(sites.latent)
    white = jax.jit(jax.vmap(lambda key: sites.draw(key)[0]))(
        jax.random.split(jax.random.key(0), NUM_DRAWS)
    )
    ends = np.cumsum([site.size for site in sites.latent])
    centred = []
    for site, end in zip(sites.latent, ends, strict=True):
        if site.coordinate is not None:
            free = np.asarray(white[:, end - site.size : end])
            coordinate = tuple(tuple(each.tolist()) for each in centre_and_spread(free))
            site = site._replace(coordinate=coordinate)
        centred.append(site)
    return centred
