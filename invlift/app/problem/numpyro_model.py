"""The door for NumPyro models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Literal

import numpy as np

from invlift.app.runs.sampling import sample
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.problems.numpyro.numpyro_problem import NumPyroProblem, numpyro_problem
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.base import Kernel

#: Steps of a model of few unknowns cost little, and short ones make fewer trajectories fail where
#: its posterior is strongly curved.
ACCEPTANCE = 0.95


class NumPyroModel(NumPyroProblem):
    """The inverse problem of a NumPyro model, which samples itself.  See :func:`from_numpyro`."""

    def sample(
        self,
        kernel: str | Kernel | None = None,
        *,
        warmup: int = 500,
        draws: int | Literal["converged"] = 3000,
        **options,
    ) -> dict[str, np.ndarray]:
        """Draws of the latent and deterministic sites, as ``MCMC.get_samples`` gives them.

        Arrays (chains * draws, ...) by name, with a warning where they have not converged.

        Parameters
        ----------
        kernel : str or Kernel, optional
            By default constrained HMC whose steps are accepted 19 times of 20.
        warmup, draws, **options
            As those of :func:`~invlift.app.runs.sampling.sample`, which says what is raised:
            ``chains``, ``seed``.  ``draws="converged"`` goes on until the verdict is good.
        """
        kernel = KERNELS["chmc"](target_acceptance=ACCEPTANCE) if kernel is None else kernel
        run = sample(self, kernel, warmup=warmup, draws=draws, **options)
        verdict = self.posterior(run).verdict()
        if not verdict.is_good:
            warnings.warn(str(verdict), stacklevel=2)
        names = run.chains[0].draws.keys() - {PREDICTED, NOISE_SCORE}
        return {name: np.concatenate([each.draws[name] for each in run.chains]) for name in names}


def from_numpyro(model: Callable, *args, **kwargs) -> NumPyroModel:
    """Inverse problem of a NumPyro model as it stands.

    Latent sites become maps of standard normal variables, whatever their parameters depend on: what
    is written centred is sampled without its funnel.  Observed sites with a continuous distribution
    are lifted (Au, Graham & Thiery 2023, section 3); all others, such as counts and
    ``numpyro.factor``, stay in the density.

    Parameters
    ----------
    model : callable
        Plates, ``deterministic``, ``mask``, ``scale``, ``obs_mask`` and handlers around it, such as
        ``reparam``, may be used.  Which sites there are must not depend on values.
    *args, **kwargs
        Of the model, as ``MCMC.run`` would be given them.

    Returns
    -------
    NumPyroModel
        Draws hold the latent and deterministic sites by their names.

    Raises
    ------
    InputError
        Naming the site, if one is discrete or improper and latent, a plate takes part of its data,
        a reading is outside its support, or nothing can be lifted: see
        :func:`~invlift.problems.numpyro.numpyro_search.find_sites`.
    """
    made = numpyro_problem(model, *args, **kwargs)
    return NumPyroModel(**{each.name: getattr(made, each.name) for each in fields(made)})
