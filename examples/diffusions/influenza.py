"""Influenza in a school, with a contact rate that changes at random: see README.md.

As a script it draws marginals of two runs, of constrained HMC and of NUTS.
"""

from pathlib import Path

import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.figure import Figure

import invlift
from invlift.posterior.figures.style import CHAIN_COLOURS, STYLE, saved

HERE = Path(__file__).parent
#: Folders of the runs of which marginals are drawn.
RUNS = {"constrained HMC": "influenza", "NUTS": "influenza-nuts"}
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
    day, in_bed = np.loadtxt(HERE / "influenza.csv", delimiter=",", skiprows=1, unpack=True)
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


def plot():
    """Histograms of each number, by its logarithm if it spans more than a factor of ten."""
    draws = {
        title: invlift.load(HERE / "results" / name).to_arviz().posterior
        for title, name in RUNS.items()
    }
    names = ["recovery", "reversion", "log_mean", "volatility", "log_contact_0", "sigma"]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 4.6), layout="constrained")
        for axes, name in zip(figure.subplots(2, 3).flat, names, strict=True):
            own = [each[name].values.ravel() for each in draws.values()]
            low, high = np.min(own), np.max(own)
            is_wide = 0.0 < 10.0 * low < high
            bins = np.geomspace(low, high, 50) if is_wide else np.linspace(low, high, 50)
            for colour, title, values in zip(CHAIN_COLOURS, draws, own, strict=False):
                share = np.full(values.size, 1.0 / values.size)
                axes.hist(values, bins, weights=share, histtype="step", color=colour, label=title)
            axes.set_xscale("log" if is_wide else "linear")
            axes.set_title(name)
            axes.set_yticks([])
        axes.legend(loc="upper left")
        saved(figure, HERE / "influenza_marginals.png")


if __name__ == "__main__":
    invlift.enable_x64()
    plot()
