"""Inverse problems of NumPyro models."""

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

#: With few unknowns steps are cheap, and with short steps fewer trajectories fail where the
#: posterior is strongly curved.
ACCEPTANCE = 0.95


class NumPyroModel(NumPyroProblem):
    """The inverse problem of a NumPyro model, with a sampler.  See :func:`from_numpyro`."""

    def sample(
        self,
        kernel: str | Kernel | None = None,
        *,
        warmup: int = 500,
        draws: int | Literal["converged"] = 3000,
        **options,
    ) -> dict[str, np.ndarray]:
        """Sample the model; return draws of sites in the form of ``MCMC.get_samples``.

        The latent and deterministic sites are arrays (chains * draws, ...) by name.  A warning is
        given if the chains have not converged.

        Parameters
        ----------
        kernel : str or Kernel, optional
            By default constrained HMC with a target acceptance of 0.95.
        warmup, draws, **options
            As for :func:`~invlift.app.runs.sampling.sample`, for example ``chains`` and ``seed``;
            errors are the same.  With ``draws="converged"`` it runs until the verdict is good.
        """
        kernel = KERNELS["chmc"](target_acceptance=ACCEPTANCE) if kernel is None else kernel
        run = sample(self, kernel, warmup=warmup, draws=draws, **options)
        verdict = self.posterior(run).verdict()
        if not verdict.is_good:
            warnings.warn(str(verdict), stacklevel=2)
        names = run.chains[0].draws.keys() - {PREDICTED, NOISE_SCORE}
        return {name: np.concatenate([each.draws[name] for each in run.chains]) for name in names}


def from_numpyro(model: Callable, *args, **kwargs) -> NumPyroModel:
    """Make the inverse problem of a NumPyro model, without changes to the model.

    Latent sites become functions of standard normal variables, whatever their parameters depend on.
    So a centred parametrisation is sampled without its funnel.  Observed sites with a continuous
    distribution are lifted (Au, Graham & Thiery 2023, section 3).  All others, such as counts and
    ``numpyro.factor``, stay in the density.

    Parameters
    ----------
    model : callable
        Plates, ``deterministic``, ``mask``, ``scale``, ``obs_mask`` and handlers around it, such as
        ``reparam``, may be used.  The set of sites must not depend on values.
    *args, **kwargs
        Arguments of the model, as for ``MCMC.run``.

    Returns
    -------
    NumPyroModel
        Its draws hold the latent and deterministic sites by name.

    Raises
    ------
    InputError
        If a latent site is discrete or improper, a plate takes part of its data, a reading is
        outside its support, or nothing can be lifted.  The message names the site: see
        :func:`~invlift.problems.numpyro.numpyro_search.find_sites`.
    """
    made = numpyro_problem(model, *args, **kwargs)
    return NumPyroModel(**{each.name: getattr(made, each.name) for each in fields(made)})
