"""Influenza in a school, with a contact rate that changes at random: see README.md."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

import invlift

#: Boys in the school, those susceptible and infected a day before the first count, and steps a day.
POPULATION, SUSCEPTIBLE, INFECTED, STEPS = 763.0, 762.0, 1.0, 20


def per_boy(log_infected):
    """One over the number of infected, bounded where there is none: by 1 / 0.05."""
    return 1.0 / jnp.sqrt(jnp.exp(2.0 * log_infected) + 0.05**2)


def drift(t, state, recovery, reversion, log_mean, volatility, **others):
    """Change of the logarithms a day (Graham, Thiery & Beskos 2022, appendix K)."""
    s, i, c = state["log_susceptible"], state["log_infected"], state["log_contact"]
    return {
        "log_susceptible": -(jnp.exp(i + c) + 0.5 * jnp.exp(i + c - s)) / POPULATION,
        "log_infected": jnp.exp(s + c) * (1.0 - 0.5 * per_boy(i)) / POPULATION
        - 0.5 * recovery * per_boy(i)
        - recovery,
        "log_contact": reversion * (log_mean - c),
    }


def diffusion(t, state, recovery, volatility, **others):
    """Strengths of three Wiener processes: of infections, of recoveries, of the contact rate."""
    s, i, c = state["log_susceptible"], state["log_infected"], state["log_contact"]
    scale = 1.0 / jnp.sqrt(POPULATION)
    infections = jnp.array([1.0, 0.0, 0.0])
    recoveries = jnp.array([0.0, 1.0, 0.0])
    return {
        "log_susceptible": scale * jnp.exp(0.5 * (i + c - s)) * infections,
        "log_infected": -scale * jnp.exp(0.5 * (s + c)) * jnp.sqrt(per_boy(i)) * infections
        + jnp.sqrt(recovery * per_boy(i)) * recoveries,
        "log_contact": volatility * jnp.array([0.0, 0.0, 1.0]),
    }


def initial(log_contact_0, **others):
    """State a day before the first count."""
    return {
        "log_susceptible": jnp.log(SUSCEPTIBLE),
        "log_infected": jnp.log(INFECTED),
        "log_contact": log_contact_0,
    }


def observe(state, **others):
    """Boys in bed."""
    return {"in_bed": jnp.exp(state["log_infected"])}


def problem():
    """Its inverse problem, with the priors of the same."""
    table = Path(__file__).with_name("influenza.csv")
    day, in_bed = np.loadtxt(table, delimiter=",", skiprows=1, unpack=True)
    return invlift.diffusion_problem(
        drift,
        diffusion,
        unknowns={
            "recovery": invlift.lognormal(median=1.0, factor=np.e),
            "reversion": invlift.lognormal(median=1.0, factor=np.e),
            "log_mean": invlift.normal(0.0, 1.0),
            "volatility": invlift.lognormal(median=np.exp(-3.0), factor=np.e),
            "log_contact_0": invlift.normal(0.0, 1.0),
        },
        initial=initial,
        times=day,
        readings={"in_bed": in_bed},
        noise=invlift.lognormal(median=1.0, factor=np.e),
        steps_per_interval=STEPS,
        observe=observe,
        start=-1.0,
    )
