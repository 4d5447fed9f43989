"""Verdict on a run: rules that give reasons, doubts and warnings, each with advice.

A *reason* withholds the verdict "converged". A *doubt* is about the model and the data, which
agreement of the chains cannot confirm. A *warning* does not change the verdict. Limits that depend
on the kernel are in its `Standards`. No set of rules can prove convergence: a good verdict only
says that none of these problems was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from invlift.posterior.names import vector_of
from invlift.posterior.statistics.diagnostics import Diagnostics
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import total
from invlift.posterior.statistics.scalars import movement
from invlift.posterior.statistics.sensor_fit import SensorStatistics
from invlift.standards import (
    DOUBTFUL_P_VALUE,
    DOUBTFUL_RESIDUAL,
    MAX_UNEXPLAINED,
    MIN_MISFIT_P_VALUE,
    MIN_READINGS,
    PRIOR_TAIL,
    Standards,
)

# Vehtari et al. (2021), section 4: R-hat below 1.01 and 50 effective draws per half chain
MAX_R_HAT = 1.01
MIN_ESS_PER_CHAIN = 100
# Among thousands of coefficients some exceed 1.01 by chance. With 100 effective draws per chain the
# largest of 10,000 stays near 1.05, so random variation does not exceed these limits.
MAX_R_HAT_FIELD = 1.05
MAX_R_HAT_ANYWHERE = 1.1
MAX_BAD_SHARE = 0.01
MIN_CHAINS = 2
MIN_DRAWS = 50
# A failed projection, for example, ends its trajectory and leaves the draws valid. Where many fail,
# the chain may not reach part of the posterior, without any other sign.
WARN_FAILURE_SHARE = 0.05
MAX_FAILURE_SHARE = 0.30
# In a sound model standardised residuals scatter less than a standard normal variable.
MAX_RESIDUAL = 4.0
# Fewest readings for the warning that the model explains nothing, if no posterior median is in a
# tail of its prior. With fewer readings this may be chance.
MANY_READINGS = 10
MAX_STUCK_SHARE = 0.20
# Chains that agree and have at least this share of the required effective draws need only more.
NEARLY = 0.5
# Two standard deviations from the mean of a normal prior: the probability beyond, and the density
# relative to the largest one.
NOTABLE_TAIL, RARE = 0.0228, math.exp(-2.0)
# Share of the audited steps. Wrong decisions bias the draws by at most about this share.
MAX_WRONG_RETURNS = 0.01


class VerdictText:
    """Text and HTML of a verdict: headline, reasons, notes or warnings, and advice."""

    def __str__(self) -> str:
        """Return the verdict as a few lines of text."""
        parts = vars(self)
        notes = parts.get("notes", parts.get("warnings"))
        doubts = parts.get("doubts", ())
        marked = ("-", (*doubts, *self.reasons)), ("- note:", notes), ("->", self.advice)
        return "\n".join([self.headline, *(f"  {x} {line}" for x, each in marked for line in each)])

    def _repr_html_(self) -> str:
        """Return the verdict as HTML for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True)
class Verdict(VerdictText):
    """Verdict on a run: reasons withhold convergence, warnings do not; most useful advice first.

    Doubts are about the model and the data: chains may converge to the posterior of a wrong model.
    """

    is_converged: bool
    headline: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    advice: tuple[str, ...]
    doubts: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether the chains have converged and there are no doubts about the model."""
        return self.is_converged and not self.doubts


# Options have the same names in a problem file, on the command line and in Python's `sample`.
MORE_DRAWS = "run longer: raise draws; --resume, in Python resume=True, goes on with a saved run"
MORE_WARMUP = (
    "raise warmup and run again from another seed; if R-hat stays above its limit, the posterior "
    "may have several modes: look at the trace plots and reconsider prior and noise"
)
MORE_CHAINS = "use four chains, so that chains from different starts can be compared"
STUCK = "look at the trace: raise warmup, or check the noise, and whether readings contradict"
NOT_FINITE = "check model, boundary conditions and prior: the model produced numbers out of range"
MISFIT = (
    "check these readings and the model (on a mesh: unit of lengths, source, boundary values): it "
    "cannot reproduce them within the noise"
)
MISFIT_TOGETHER = (
    "look at standardised_residual in sensor_fit.csv, on a mesh in sensors.vtu, for regions of one "
    "sign, and at the model and the scale of the noise"
)
SHARP_BENDS = "if that is too slow, choose a smaller prior std, or a noise scale of shorter tail"
WRONG_RETURNS = 'set return_check = "exact" in the options of the sampler'
NOT_READY = "correct the problem and run it again: these draws are of the wrong posterior"
REJECTIONS = "raise warmup so that the sampler can adapt"

UNEXPLAINED = (
    "look for readings or lengths in another unit, codes for missing readings, and wrong places of "
    "sensors: an unknown noise scale increases with the error of the model"
)
CONFLICT = "look at the data, or widen the prior if they are right"

REASON, DOUBT, WARNING = "reason", "doubt", "warning"


class Rule(NamedTuple):
    """A reason, doubt or warning that holds if `applies` is true, with advice."""

    applies: bool
    kind: str
    text: str
    advice: str
    #: For a reason that more draws would remove: about the share of the needed draws; else 0.
    share: float = 0.0


def verdict_of(posterior: PosteriorStatistics) -> Verdict:
    """Judge a run from its draws, statistics, fit and doubts."""
    field, num_chains, num_draws = posterior.field, posterior.num_chains, posterior.num_draws
    needed, num_requested = MIN_ESS_PER_CHAIN * num_chains, posterior.num_draws_requested or 0
    stats = [chain.stats for chain in posterior.chains]
    rules = [
        *(Rule(True, DOUBT, f"the problem was not ready to run, by its {each}", NOT_READY)
          for each in posterior.objections),
        *(Rule(True, DOUBT, text, advice) for text, advice in posterior.doubts),
        Rule(
            num_draws < num_requested, WARNING,
            f"the run stopped after {num_draws} of {num_requested} draws per chain", MORE_DRAWS,
        ),
        Rule(  # a chain may be slow because it is elsewhere
            num_chains < (posterior.num_chains_requested or 0), WARNING,
            f"{num_chains} of {posterior.num_chains_requested} chains are judged; the others have "
            "too few draws, and may be slow in another part of the posterior", MORE_DRAWS,
        ),
        Rule(
            num_draws < MIN_DRAWS, REASON,
            f"{num_draws} draws per chain are too few to judge; {MIN_DRAWS} are the least",
            MORE_DRAWS,
        ),
        Rule(
            num_chains < MIN_CHAINS, REASON,
            "one chain alone cannot show that other starts lead to the same answer", MORE_CHAINS,
        ),
        *_rules_of_movement(movement(posterior.all_draws, field and field.name)),
    ]  # fmt: skip
    if num_draws >= MIN_DRAWS:  # else R-hat and effective sample sizes tell nothing more
        rules += _rules_of_scalars(posterior.scalar_diagnostics, needed)
        if field is not None:
            fields = posterior.fields()
            pair = (fields[f"{field.name}_{key}"] for key in ("r_hat", "ess_bulk"))
            pair = (values[field.is_unknown(values.size)] for values in pair)
            rules += _rules_of_vector(f"{field.place}s", *pair, needed)
        for name, each in posterior.vector_diagnostics.items():
            rules += _rules_of_vector(f"entries of {name}", each.r_hat, each.ess_bulk, needed)
    rules += [*_rules_of_sampler(stats, posterior.standards), *_rules_of_returns(stats)]
    unlikely = list(_unlikely(posterior))
    is_conflict = any(tail < PRIOR_TAIL for _, tail in unlikely)
    rules += [Rule(True, WARNING, text, CONFLICT) for text, _ in unlikely]
    fit = posterior.fit.sensors() if posterior.fit.is_known else None
    if fit is not None and fit.standardised_residual is not None and fit.observed.size:
        kind, labels = "reading" if posterior.mesh is None else "sensor", posterior.sensors.labels
        names = range(fit.observed.size) if labels is None else labels
        residuals = fit.standardised_residual
        rules += _rules_of_fit(residuals, kind, names, posterior.fit.misfit_p_value)
        if posterior.sensors.sigma is None:  # it is unknown
            rules.append(_rule_of_nothing_explained(fit, is_conflict))
    rules = [rule for rule in rules if rule.applies]
    reasons = tuple(rule.text for rule in rules if rule.kind == REASON)
    size = f"{num_chains} chain{'s' * (num_chains > 1)} of {num_draws} draws"
    headline = f"Converged, as far as can be told from {size}."
    share = min((rule.share for rule in rules if rule.kind == REASON), default=0.0)
    if share >= NEARLY:
        headline = f"Nearly converged: {size} agree, but some effective sample sizes are short; "
        headline += f"about {math.ceil(10 / share) / 10:g} times as many draws would do."
    elif reasons:
        plural = "s" * (len(reasons) > 1)
        headline = f"Not converged: {len(reasons)} reason{plural} to doubt {size}."
    doubts, warnings = (
        tuple(rule.text for rule in rules if rule.kind == kind) for kind in (DOUBT, WARNING)
    )
    if doubts:
        headline = f"{headline[:-1]}; {'and' if reasons else 'but'} the model is in doubt."
    advice = tuple(dict.fromkeys(rule.advice for rule in rules))
    return Verdict(not reasons, headline, reasons, warnings, advice, doubts)


def _unlikely(posterior: PosteriorStatistics) -> Iterator[tuple[str, float]]:
    """Yield a text for each scalar whose posterior median is far from its prior, and the tail.

    A median near the end of a prior that is dense there, such as that of a noise scale near zero,
    is not far.
    """
    for name, chains in posterior.scalars.items():
        quantity = posterior.described.get(name)
        if quantity is None or np.ndim(quantity.prior_density) != 2:
            continue
        values, density = np.asarray(quantity.prior_density)
        steps = np.diff(values) * 0.5 * (density[1:] + density[:-1])
        median = float(np.median(np.concatenate(chains)))
        below = np.interp(median, values, np.cumsum([0.0, *steps]) / max(steps.sum(), 1e-300))
        side = "above" if below > 0.5 else "below"
        tail = float(min(below, 1.0 - below))
        is_rare = np.interp(median, values, density) < RARE * density.max()
        if tail < PRIOR_TAIL or (tail < NOTABLE_TAIL and is_rare):
            share = f"{100 * (1.0 - max(tail, PRIOR_TAIL)):.3g} %"
            text = f"the posterior median of {name}, {median:.3g}, is {side} {share} of its prior"
            yield text, tail


def _rule_of_nothing_explained(fit: SensorStatistics, is_conflict: bool) -> Rule:
    """Return the rule for a model that explains the readings only by a large noise scale."""
    observed = fit.observed[fit.is_plain]
    spread = float(np.std(observed))
    left = float(np.sqrt(np.mean(np.square(observed - fit.predicted_mean[fit.is_plain]))))
    noise = float(np.median(fit.noise_sd[fit.is_plain]))
    text = "the model fits the data no better than a constant: "
    text += f"noise of sd {noise:.3g}, readings of sd {spread:.3g}"
    enough = observed.size >= (MIN_READINGS if is_conflict else MANY_READINGS)
    is_nothing = enough and left >= MAX_UNEXPLAINED * spread
    return Rule(is_nothing, DOUBT if is_conflict else WARNING, text, UNEXPLAINED)


def _rules_of_movement(changes: Sequence[np.ndarray]) -> Iterator[Rule]:
    for chain, values in enumerate(changes):
        num, longest = len(values), longest_run(values)
        is_long = longest > max(10, MAX_STUCK_SHARE * num)
        stayed = f"chain {chain} stayed in one place for {longest} of {num} draws"
        if not np.isfinite(values).all():
            yield Rule(True, REASON, f"chain {chain} holds draws that are not finite", NOT_FINITE)
        elif longest == num > 1:
            yield Rule(True, REASON, f"chain {chain} never moved", STUCK)
        else:
            yield Rule(is_long, REASON, stayed, STUCK)


def _rules_of_scalars(scalars: Mapping[str, Diagnostics], needed: int) -> Iterator[Rule]:
    """Yield the rules of scalars; for a vector, name the worst entry and count the others."""
    vectors: dict[str, list[str]] = {}
    for name in scalars:
        vectors.setdefault(vector_of(name), []).append(name)
    too_small = f"effective sample size of {{}} is {{}}, below {needed} (100 per chain)"
    for vector, names in vectors.items():
        r_hat, bulk, tail = (
            np.array([getattr(scalars[name], key)[0] for name in names])
            for key in ("r_hat", "ess_bulk", "ess_tail")
        )
        missing = np.isnan(r_hat) | np.isnan(bulk)
        tail = np.where(np.isnan(tail) & ~missing, 0.0, tail)  # too few draws in the tail
        disagree = f"R-hat of {{}} is {{}}, above {MAX_R_HAT}: chains or their halves differ"
        more = MORE_WARMUP if np.nanmax(r_hat, initial=1.0) > MAX_R_HAT_ANYWHERE else MORE_DRAWS
        for is_bad, badness, values, limit, text, advice in (
            (missing, missing, r_hat, 0.0, "{} is constant or not finite: no diagnostics", STUCK),
            (r_hat > MAX_R_HAT, r_hat, r_hat, MAX_R_HAT, disagree, more),
            (bulk < needed, -bulk, bulk, needed, f"bulk {too_small}", MORE_DRAWS),
            (tail < needed, -tail, tail, needed, f"tail {too_small}", MORE_DRAWS),
        ):
            if is_bad.any():
                worst, others = np.nanargmax(badness), is_bad.sum() - 1
                text = text.format(names[worst], _apart(values[worst], limit))
                text += f" (and {others} more of {vector})" if others else ""
                share = values[worst] / limit if limit == needed else 0.0
                yield Rule(True, REASON, text, advice, share)


def _apart(value: float, limit: float) -> str:
    """Format a number with enough digits to distinguish it from a limit."""
    start = 0 if limit >= 10.0 else 4
    texts = (f"{value:.{digits}f}" for digits in range(start, start + 5))
    return next((text for text in texts if float(text) != limit), f"{value:g}")


def _rules_of_vector(
    entries: str, r_hat: np.ndarray, ess: np.ndarray, needed: int
) -> Iterator[Rule]:
    is_missing, size = np.isnan(r_hat), r_hat.size
    known = np.where(is_missing, 1.0, r_hat)
    worst = int(np.argmax(known))
    num_apart, num_few = np.sum(known > MAX_R_HAT_FIELD), np.sum(ess < needed)
    is_far = known[worst] > MAX_R_HAT_ANYWHERE
    yield Rule(
        is_missing.any(), REASON,
        f"{is_missing.sum()} of {size} {entries} have no R-hat: constant or not finite there "
        f"(first: {np.argmax(is_missing)})", STUCK,
    )  # fmt: skip
    yield Rule(
        is_far or num_apart > MAX_BAD_SHARE * size, REASON,
        f"R-hat is above {MAX_R_HAT_FIELD} at {num_apart} of {size} {entries}, and largest at "
        f"number {worst} with {known[worst]:.3f}", MORE_WARMUP if is_far else MORE_DRAWS,
    )  # fmt: skip
    yield Rule(
        num_few > MAX_BAD_SHARE * size, REASON,
        f"bulk effective sample size is below {needed} at {num_few} of {size} {entries}, down to "
        f"{np.min(ess, where=ess == ess, initial=np.inf):.0f}", MORE_DRAWS,
    )  # fmt: skip


def _rules_of_sampler(
    stats: Sequence[Mapping[str, np.ndarray]], standards: Standards
) -> Iterator[Rule]:
    yield Rule(bool(standards.caveat), WARNING, standards.caveat, standards.advice)
    failures = _statistic(stats, standards.failures)
    share = np.mean(np.concatenate(failures) > 0) if failures else 0.0
    text = f"{standards.failures_in_words} in {100 * share:.0f} % of the draws"
    many = share > MAX_FAILURE_SHARE
    out_of_reach = f"{text}: part of the posterior may be out of reach"
    yield Rule(many, REASON, out_of_reach, standards.advice)
    yield Rule(not many and share > WARN_FAILURE_SHARE, WARNING, text, standards.advice)
    shortest = min(map(np.mean, _statistic(stats, "step_size")), default=np.inf)
    yield Rule(
        shortest < (standards.short_step or 0.0), WARNING,
        f"the step size is {shortest:.2g}, below {standards.short_step}: the posterior is strongly "
        "curved", SHARP_BENDS,
    )  # fmt: skip
    least = standards.min_acceptance or 0.0
    for index, rates in enumerate(_statistic(stats, "acceptance_rate")):
        rate = np.nanmean(rates) if np.isfinite(rates).any() else 1.0
        yield Rule(
            rate < least, WARNING,
            f"chain {index} accepted {100 * rate:.0f} % of its proposals; {100 * least:.0f} % or "
            "more is usual after adaptation", REJECTIONS,
        )  # fmt: skip


def _rules_of_returns(stats: Sequence[Mapping[str, np.ndarray]]) -> Iterator[Rule]:
    """Yield the rule for audits of the early return check in constrained dynamics."""
    names = "num_return_disagreements", "num_return_audits"
    num_wrong, num_audited = (total(stats, name) or 0 for name in names)
    text = f"the early return check and the exact one differed in {num_wrong} of {num_audited} "
    text += "audited steps"
    kind = REASON if num_wrong > MAX_WRONG_RETURNS * num_audited else WARNING
    yield Rule(num_wrong > 0, kind, text, WRONG_RETURNS)


def _rules_of_fit(
    residuals: np.ndarray, kind: str, names: Sequence, misfit_p_value: float | None
) -> Iterator[Rule]:
    size = np.nan_to_num(np.abs(residuals), nan=0.0, posinf=np.inf)
    num_far, worst = np.sum(size > MAX_RESIDUAL), int(np.argmax(size))
    is_hopeless = num_far > 0 and size[worst] > DOUBTFUL_RESIDUAL
    yield Rule(
        num_far > 0, DOUBT if is_hopeless else WARNING,
        f"{num_far} of {size.size} readings are more than {MAX_RESIDUAL:g} standard deviations (of "
        f"noise and prediction) away from their predictions, {kind} "
        f"{names[worst]} by {size[worst]:.3g}", MISFIT,
    )  # fmt: skip
    p_value = 1.0 if misfit_p_value is None else misfit_p_value
    is_hopeless = p_value < DOUBTFUL_P_VALUE
    yield Rule(
        (is_hopeless or not num_far) and p_value < MIN_MISFIT_P_VALUE,
        DOUBT if is_hopeless else WARNING,
        f"{'all readings' if num_far else 'no reading alone, but all'} together are further from "
        "their predictions than the "
        f"noise explains (posterior predictive p-value {p_value:.2g})", MISFIT_TOGETHER,
    )  # fmt: skip


def _statistic(stats: Sequence[Mapping[str, np.ndarray]], name: str | None) -> list[np.ndarray]:
    """Return one statistic of each chain that has it."""
    return [np.asarray(chain[name]) for chain in stats if name and np.size(chain.get(name, ()))]


def longest_run(values: np.ndarray) -> int:
    """Length of the longest run of equal consecutive values in a (num_draws,) array."""
    edges = np.flatnonzero(np.diff(values, prepend=np.nan, append=np.nan))
    return int(np.diff(edges).max(initial=0))
