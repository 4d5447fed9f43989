"""Can these draws be trusted? An answer in words, with what to do about it.

The rules are collected in the constants below, except what depends on the kernel: that is in its
own standards. A *reason* is enough to withhold the verdict
"converged"; a *warning* is worth knowing either way. No set of rules can prove convergence: the
most a good verdict says is that nothing looked for was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from invlift.posterior.diagnostics import Diagnostics
from invlift.posterior.names import vector_of
from invlift.posterior.standards import Standards

# Vehtari et al. (2021), section 4: R-hat below 1.01 and 50 effective draws per half chain
MAX_R_HAT = 1.01
MIN_ESS_PER_CHAIN = 100
# Among thousands of coefficients some exceed 1.01 by chance. With 100 effective draws per chain
# the largest of 10,000 stays near 1.05, so these shares and this maximum do not trip on noise.
MAX_R_HAT_FIELD = 1.05
MAX_R_HAT_ANYWHERE = 1.1
MAX_BAD_SHARE = 0.01
MIN_CHAINS = 2
MIN_DRAWS = 50
# A failed projection, for one, ends its trajectory and leaves the draws valid, but where most fail,
# part of the posterior may be out of reach without any other sign.
WARN_FAILURE_SHARE = 0.05
MAX_FAILURE_SHARE = 0.30
# In a sound model standardised residuals scatter less than a standard normal variable.
MAX_RESIDUAL = 4.0
# Of all readings together. Under a true model the p-value keeps away from 0.
MIN_MISFIT_P_VALUE = 0.01
MAX_STUCK_SHARE = 0.20
# Of the audited steps. Wrong decisions bias the draws by no more than about their share.
MAX_WRONG_RETURNS = 0.01


@dataclass(frozen=True)
class Verdict:
    """Verdict on a run.

    Attributes
    ----------
    is_converged : bool
        Whether there is no reason to doubt the draws.
    headline : str
        One sentence.
    reasons : tuple of str
        Findings that withhold convergence; empty if and only if `is_converged`.
    warnings : tuple of str
        Findings worth knowing that do not.
    advice : tuple of str
        What to do, most useful first.
    """

    is_converged: bool
    headline: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        """Return the verdict as a few lines of text."""
        return in_lines(self.headline, self.reasons, self.warnings, self.advice)

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        parts = [f"<b>{escape(self.headline)}</b>"]
        for kind, lines in (("", self.reasons), ("note: ", self.warnings), ("→ ", self.advice)):
            parts += [f"<li>{kind}{escape(line)}</li>" for line in lines]
        return f"<div>{parts[0]}<ul>{''.join(parts[1:])}</ul></div>"


def in_lines(
    headline: str, reasons: Sequence[str], notes: Sequence[str], advice: Sequence[str]
) -> str:
    """A verdict as a few lines of text."""
    lines = [headline]
    for mark, each in (("-", reasons), ("- note:", notes), ("->", advice)):
        lines += [f"  {mark} {line}" for line in each]
    return "\n".join(lines)


# Options are called the same in a problem file, on the command line and by Python's `sample`.
MORE_DRAWS = (
    "run longer: raise draws, in a new run or to go on with a saved one (--resume, or in Python "
    "resume=True)"
)
MORE_WARMUP = (
    "raise warmup and run again from another seed; if chains still disagree, the posterior may "
    "have several modes: look at the trace plots and reconsider prior and noise"
)
MORE_CHAINS = "use four chains, so that chains from different starts can be compared"
STUCK = (
    "look at the stuck chain's trace: raise warmup so that the sampler can adapt, or check for "
    "readings that contradict each other, or the noise"
)
NOT_FINITE = (
    "check the model (on a mesh also its boundary conditions) and the prior: the model produced "
    "numbers out of range"
)
MISFIT = (
    "check these readings and the model (on a mesh: unit of lengths, source, boundary values): it "
    "cannot reproduce them within the noise"
)
MISFIT_TOGETHER = (
    "look at standardised_residual in sensors.vtu for regions of one sign, and at the model and "
    "the scale of the noise"
)
SHARP_BENDS = (
    "if that is too slow, choose a prior that allows less: a smaller std, or a noise scale with a "
    "shorter tail"
)
WRONG_RETURNS = 'set return_check = "exact" in the options of the sampler'
NOT_READY = (
    "mend the problem and run it again: these are draws, but of another posterior than meant"
)
REJECTIONS = "raise warmup so that the sampler can adapt"


def judge(
    scalars: Mapping[str, Diagnostics],
    num_chains: int,
    num_draws: int,
    *,
    field_r_hat: np.ndarray | None = None,
    field_ess: np.ndarray | None = None,
    field_place: str = "nodes",
    vectors: Mapping[str, Diagnostics] | None = None,
    stats: Sequence[Mapping[str, np.ndarray]] = (),
    standards: Standards | None = None,
    movement: Sequence[np.ndarray] = (),
    residuals: np.ndarray | None = None,
    misfit_p_value: float | None = None,
    num_draws_requested: int | None = None,
    objections: Sequence[str] = (),
) -> Verdict:
    """Judge a run by everything known about it.

    Parameters
    ----------
    scalars : mapping of str to Diagnostics
        Diagnostics of the scalars, each of size 1.
    num_chains, num_draws : int
        Chains, and draws per chain.
    field_r_hat, field_ess : (N,) arrays or None
        R-hat and bulk effective sample size of each coefficient of the field.
    field_place : str
        What a coefficient of the field belongs to, in words: "nodes", "cells", "parameters".
    vectors : mapping of str to Diagnostics or None
        Diagnostics of vectors too long to be looked at entry by entry; judged like a field.
    stats : sequence of mappings
        Sampler statistics of each chain, (num_draws,) each; `acceptance_rate`, `step_size`,
        `num_return_disagreements` and what the standards call failures are looked at where they
        exist.
    standards : Standards or None
        Of the kernel; without them its statistics are not judged.
    movement : sequence of (num_draws,) arrays
        One scalar per chain that changes whenever the chain moves.
    residuals : (d,) array or None
        Standardised residuals of the readings: see `SensorStatistics`.
    misfit_p_value : float or None
        Of all readings together: see `statistics.misfit_p_value`. It is told of where no reading
        alone is.
    num_draws_requested : int or None
        Draws per chain that were asked for.
    objections : sequence of str
        What was found about the problem before it was sampled.

    Returns
    -------
    Verdict
    """
    notes = _Notes()
    for objection in objections:
        notes.warn(f"the problem was not ready to run, by its {objection}", NOT_READY)
    _judge_amount(notes, num_chains, num_draws, num_draws_requested)
    _judge_movement(notes, movement)
    if num_draws >= 4:
        _judge_scalars(notes, scalars, num_chains)
        _judge_field(notes, field_r_hat, field_ess, field_place, num_chains)
        for name, found in (vectors or {}).items():
            place = f"entries of {name}"
            _judge_field(notes, found.r_hat, found.ess_bulk, place, num_chains, f"entry of {name}")
    if standards is not None:
        _judge_sampler(notes, stats, standards)
    _judge_returns(notes, stats)
    if residuals is not None:
        _judge_fit(notes, residuals, misfit_p_value)
    size = f"{num_chains} chain{'s' * (num_chains > 1)} of {num_draws} draws"
    if notes.reasons:
        count = len(notes.reasons)
        headline = f"Not converged: {count} reason{'s' * (count > 1)} to doubt {size}."
    else:
        headline = f"Converged, as far as can be told from {size}."
    return Verdict(
        not notes.reasons,
        headline,
        tuple(notes.reasons),
        tuple(notes.warnings),
        tuple(dict.fromkeys(notes.advice)),
    )


class _Notes:
    """Findings so far."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.warnings: list[str] = []
        self.advice: list[str] = []

    def doubt(self, reason: str, advice: str) -> None:
        self.reasons.append(reason)
        self.advice.append(advice)

    def warn(self, warning: str, advice: str) -> None:
        self.warnings.append(warning)
        self.advice.append(advice)


def _judge_amount(notes: _Notes, num_chains: int, num_draws: int, requested: int | None) -> None:
    if requested is not None and num_draws < requested:
        notes.warn(f"the run stopped after {num_draws} of {requested} draws per chain", MORE_DRAWS)
    if num_draws < MIN_DRAWS:
        notes.doubt(
            f"{num_draws} draws per chain are too few to judge; {MIN_DRAWS} are the least",
            MORE_DRAWS,
        )
    if num_chains < MIN_CHAINS:
        notes.doubt(
            "one chain alone cannot show that other starts lead to the same answer", MORE_CHAINS
        )


def _judge_movement(notes: _Notes, movement: Sequence[np.ndarray]) -> None:
    for chain, values in enumerate(movement):
        values = np.asarray(values)
        if not np.isfinite(values).all():
            notes.doubt(f"chain {chain} holds draws that are not finite", NOT_FINITE)
        elif len(values) > 1:
            longest = longest_run(values)
            if longest == len(values):
                notes.doubt(f"chain {chain} never moved", STUCK)
            elif longest > max(10, MAX_STUCK_SHARE * len(values)):
                notes.doubt(
                    f"chain {chain} stayed in one place for {longest} of {len(values)} draws", STUCK
                )


def _judge_fit(notes: _Notes, residuals: np.ndarray, misfit_p_value: float | None) -> None:
    far = np.flatnonzero(np.abs(residuals) > MAX_RESIDUAL)
    if far.size:
        worst = int(np.nanargmax(np.abs(residuals)))
        notes.warn(
            f"{far.size} of {residuals.size} readings are more than {MAX_RESIDUAL:g} standard "
            f"deviations (of noise and prediction) away from what the model makes of them, sensor "
            f"{worst} by {abs(residuals[worst]):.3g}",
            MISFIT,
        )
    elif misfit_p_value is not None and misfit_p_value < MIN_MISFIT_P_VALUE:
        notes.warn(
            f"no reading alone, but all together are further from what the model makes of them "
            f"than the noise explains (posterior predictive p-value {misfit_p_value:.2g})",
            MISFIT_TOGETHER,
        )


def _judge_scalars(notes: _Notes, scalars: Mapping[str, Diagnostics], num_chains: int) -> None:
    needed = MIN_ESS_PER_CHAIN * num_chains
    vectors: dict[str, list[str]] = {}
    for name in scalars:
        vectors.setdefault(vector_of(name), []).append(name)
    for vector, names in vectors.items():
        found: dict[str, list[tuple[float, str, str]]] = {}
        for name in names:
            for kind, badness, reason, advice in _scalar_findings(name, scalars[name], needed):
                found.setdefault(kind, []).append((badness, reason, advice))
        for findings in found.values():
            _, reason, advice = max(findings, key=lambda finding: finding[0])
            others = len(findings) - 1
            notes.doubt(reason + (f" (and {others} more of {vector})" if others else ""), advice)


def _scalar_findings(
    name: str, diagnostics: Diagnostics, needed: int
) -> Iterator[tuple[str, float, str, str]]:
    """What is wrong with a scalar: what kind of thing, how bad, in words, and what to do."""
    r_hat, bulk, tail = (
        float(x[0]) for x in (diagnostics.r_hat, diagnostics.ess_bulk, diagnostics.ess_tail)
    )
    if np.isnan([r_hat, bulk]).any():
        yield "missing", 0.0, f"{name} has no diagnostics: it is constant or not finite", STUCK
        return
    if r_hat > MAX_R_HAT:
        text = (
            f"R-hat of {name} is {_above(r_hat, MAX_R_HAT)}, above {MAX_R_HAT}: "
            "the chains do not agree"
        )
        yield "r_hat", r_hat, text, MORE_WARMUP if r_hat > 1.1 else MORE_DRAWS
    for kind, ess in (("bulk", bulk), ("tail", tail)):
        if np.isnan(ess):
            text = f"{name} has no {kind} effective sample size: too many equal draws"
            yield f"no {kind}", 0.0, text, STUCK
        elif ess < needed:
            text = (
                f"{kind} effective sample size of {name} is {ess:.0f}, below {needed} "
                f"({MIN_ESS_PER_CHAIN} per chain)"
            )
            yield kind, -ess, text, MORE_DRAWS


def _judge_field(
    notes: _Notes,
    r_hat: np.ndarray | None,
    ess: np.ndarray | None,
    place: str,
    num_chains: int,
    one: str | None = None,
) -> None:
    one = one or place.rstrip("s")
    if r_hat is not None and np.size(r_hat):
        r_hat = np.asarray(r_hat)
        is_missing = np.isnan(r_hat)
        if is_missing.any():
            notes.doubt(
                f"{is_missing.sum()} of {r_hat.size} {place} have no R-hat: constant or not finite "
                f"there (first: {int(np.argmax(is_missing))})",
                STUCK,
            )
        if not is_missing.all():
            num_bad = int((r_hat > MAX_R_HAT_FIELD).sum())
            worst = int(np.nanargmax(r_hat))
            is_bad = num_bad > MAX_BAD_SHARE * r_hat.size
            if is_bad or r_hat[worst] > MAX_R_HAT_ANYWHERE:
                notes.doubt(
                    f"R-hat is above {MAX_R_HAT_FIELD} at {_share(num_bad, r_hat.size)} of the "
                    f"{place}, and largest at {one} {worst} with "
                    f"{_above(float(r_hat[worst]), MAX_R_HAT_FIELD)}",
                    MORE_WARMUP if r_hat[worst] > MAX_R_HAT_ANYWHERE else MORE_DRAWS,
                )
    if ess is not None and np.size(ess):
        ess = np.asarray(ess)
        needed = MIN_ESS_PER_CHAIN * num_chains
        num_bad = int((ess < needed).sum())
        if num_bad > MAX_BAD_SHARE * ess.size:
            notes.doubt(
                f"bulk effective sample size is below {needed} at {_share(num_bad, ess.size)} of "
                f"the {place}, down to {np.nanmin(ess):.0f}",
                MORE_DRAWS,
            )


def _judge_sampler(
    notes: _Notes, stats: Sequence[Mapping[str, np.ndarray]], standards: Standards
) -> None:
    if standards.caveat:
        notes.warn(standards.caveat, standards.advice)
    failures = _statistic(stats, standards.failures)
    if failures:
        share = float((np.concatenate(failures) > 0).mean())
        text = f"{standards.failures_in_words} in {100 * share:.0f} % of the draws"
        if share > MAX_FAILURE_SHARE:
            notes.doubt(text + ": part of the posterior may be out of reach", standards.advice)
        elif share > WARN_FAILURE_SHARE:
            notes.warn(text, standards.advice)
    shortest = min(map(np.mean, _statistic(stats, "step_size")), default=np.inf)
    if standards.short_step is not None and shortest < standards.short_step:
        notes.warn(
            f"chains had to move in steps of {shortest:.2g}, and {standards.short_step:g} is "
            "short: the posterior bends sharply",
            SHARP_BENDS,
        )
    least = standards.min_acceptance
    for index, chain in enumerate(stats if least is not None else ()):
        rates = np.asarray(chain.get("acceptance_rate", ()), dtype=float)
        rates = rates[np.isfinite(rates)]
        if rates.size and rates.mean() < least:
            notes.warn(
                f"chain {index} accepted {100 * rates.mean():.0f} % of its proposals; "
                f"{100 * least:.0f} % or more is usual after adaptation",
                REJECTIONS,
            )


def _judge_returns(notes: _Notes, stats: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Tell of steps of constrained dynamics whose early return check was found to be wrong."""
    num_wrong, num_audited = (
        sum(int(np.sum(values)) for values in _statistic(stats, f"num_return_{name}"))
        for name in ("disagreements", "audits")
    )
    if num_wrong:
        text = (
            f"the early check of the way back decided {num_wrong} of {num_audited} audited steps "
            "otherwise than the exact one"
        )
        is_doubtful = num_wrong > MAX_WRONG_RETURNS * num_audited
        (notes.doubt if is_doubtful else notes.warn)(text, WRONG_RETURNS)


def _statistic(stats: Sequence[Mapping[str, np.ndarray]], name: str | None) -> list[np.ndarray]:
    """One statistic of those chains that have it."""
    return [np.asarray(chain[name]) for chain in stats if name and np.size(chain.get(name, ()))]


def longest_run(values: np.ndarray) -> int:
    """Length of the longest run of equal consecutive values in a (num_draws,) array."""
    values = np.asarray(values)
    if values.size == 0:
        return 0
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    return int(np.diff(np.concatenate([[0], edges, [values.size]])).max())


def _above(value: float, bound: float) -> str:
    """Write `value` with as many decimals as it takes to see that it exceeds `bound`."""
    for decimals in (2, 3, 4):
        text = f"{value:.{decimals}f}"
        if float(text) > bound:
            return text
    return f"{value:.6f}"


def _share(count: int, total: int) -> str:
    """Write a share in per cent, never rounding something to nothing."""
    per_cent = 100 * count / total
    return f"{per_cent:.0f} %" if per_cent >= 1 or count == 0 else f"{count} of {total}"
