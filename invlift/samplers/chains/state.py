"""State of a chain: its position, and its draws and statistics, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from invlift.chains import Chain
from invlift.moments import Moments
from invlift.programs.pytrees import PyTree
from invlift.samplers.chains.fields import FieldIncrement, FieldRecord
from invlift.samplers.chains.plan import Plan


class Position(NamedTuple):
    """Position from which a chain continues: everything that determines its future.

    Attributes
    ----------
    values : (Q,)
    adaptation
        State of the adaptation.
    iteration : int
        Iterations so far, warm-up included.
    seconds : tuple of two floats
        Warm-up and sampling time so far.
    carried : dict of arrays
        Carried fields of the kernel's state, by name; empty before the first iteration.
    """

    values: np.ndarray
    adaptation: PyTree
    iteration: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    carried: dict[str, np.ndarray] = {}


class Block(NamedTuple):
    """Results of consecutive iterations, all of warm-up or all of sampling.

    There are ten iterations, a multiple of ten, or fewer at the end.

    Attributes
    ----------
    end : Position
        Position after the block.
    num : int
    is_warmup : bool
    draws : dict of arrays (num, ...)
        Recorded quantities of each draw, also in warm-up.
    stats : dict of arrays (num,)
    moments : dict of Moments
        Moments of further values of the model, of which no draws are kept.
    byproducts : dict of arrays (num, ...)
        Further values of the model that are fields of the plan; in sampling only.
    """

    end: Position
    num: int
    is_warmup: bool
    draws: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    moments: dict[str, Moments]
    byproducts: dict[str, np.ndarray] = {}


class Increment(NamedTuple):
    """Increment of the saved chain from one block.

    Attributes
    ----------
    num : int
        Number of iterations.
    warmup : dict of arrays (num,)
    block : dict
        As in ``ChainState.blocks``.
    fields : dict of FieldIncrement
    """

    num: int
    warmup: dict[str, np.ndarray]
    block: dict[str, dict[str, np.ndarray]]
    fields: dict[str, FieldIncrement]


@dataclass
class ChainState:
    """Position of a chain, and its results so far; saved between blocks.

    Attributes
    ----------
    position : Position
    blocks : list of dict
        ``draws`` and ``stats`` (each a dict of arrays) of sampling, in order, without fields.
    fields : dict of FieldRecord
    moments : dict of Moments
    warmup_blocks : list of dict of arrays
    recorded : dict of arrays
        Recorded quantities at the position.
    """

    position: Position
    blocks: list = field(default_factory=list)
    fields: dict[str, FieldRecord] = field(default_factory=dict)
    moments: dict[str, Moments] = field(default_factory=dict)
    warmup_blocks: list = field(default_factory=list)
    recorded: dict = field(default_factory=dict)

    @property
    def num_draws(self) -> int:
        """Number of draws so far."""
        return sum(map(_length, self.blocks))

    def add(self, plan: Plan, block: Block) -> Increment:
        """Add a block, and return the increment to save."""
        self.position = block.end
        self.recorded = {name: values[-1] for name, values in block.draws.items()}
        if block.is_warmup:
            self.warmup_blocks.append(block.stats)
            return Increment(block.num, block.stats, {}, {})
        short, fields = {}, {}
        for name, values in (block.draws | block.byproducts).items():
            if name not in plan.fields:
                short[name] = values
                continue
            record = self.fields.setdefault(name, FieldRecord(plan.max_field_bytes))
            fields[name] = record.add(values)
            if name in block.byproducts:
                continue
            with np.errstate(invalid="ignore", over="ignore"):  # the verdict reports such draws
                short[f"{name}_field_mean"] = np.mean(values, axis=1)
                short[f"{name}_field_std"] = np.std(values, axis=1)
        added = {"draws": short, "stats": block.stats}
        self.append_block(added)
        for name, moments in block.moments.items():
            before = self.moments.get(name)
            self.moments[name] = moments if before is None else before.merge(moments)
        return Increment(block.num, {}, added, fields)

    def append_block(self, block: dict) -> None:
        """Append a block; join the last two blocks while the last is not the shorter one.

        Few blocks remain: small arrays take many times the memory of their numbers.
        """
        self.blocks.append(block)
        while len(self.blocks) > 1 and _length(self.blocks[-1]) >= _length(self.blocks[-2]):
            last, one = self.blocks.pop(), self.blocks.pop()
            self.blocks.append({kind: _joined([one[kind], last[kind]]) for kind in one})


def start_position(plan: Plan, values) -> Position:
    """Return the position of a new chain at values (Q,)."""
    values = np.asarray(values)
    return Position(values, plan.kernel.adaptation.init(values.size))


def start_chain(plan: Plan, values) -> ChainState:
    """Return the state of a new chain at values (Q,)."""
    return ChainState(start_position(plan, values))


def gather(plan: Plan, state: ChainState) -> Chain:
    """Return the draws, statistics and moments of a chain as a result."""
    stats = _joined([block["stats"] for block in state.blocks])
    fields = {name: np.stack(record.rows) for name, record in state.fields.items()}
    moments = {name: record.moments for name, record in state.fields.items()}
    batches = {name: record.batch_means for name, record in state.fields.items()}
    return Chain(
        draws=fields | _joined([block["draws"] for block in state.blocks]),
        stats=stats,
        moments=state.moments | moments,
        warmup_stats=_joined(state.warmup_blocks),
        step_size=_step_size(plan, state, stats),
        warmup_seconds=state.position.seconds[0],
        sampling_seconds=state.position.seconds[1],
        every={name: record.every for name, record in state.fields.items()},
        batches={name: means for name, means in batches.items() if means is not None},
    )


def _step_size(plan: Plan, state: ChainState, stats: dict) -> float:
    if "step_size" in stats:
        return float(stats["step_size"][-1])
    adaptation = plan.kernel.adaptation
    if state.position.iteration < plan.num_warmup:
        return float("nan")
    tuning = adaptation.tuning(state.position.adaptation, np.asarray(False))
    return float(adaptation.report(tuning).get("step_size", np.nan))


def _length(block: dict) -> int:
    return len(next(iter(block["stats"].values())))


def _joined(parts: Sequence[dict]) -> dict[str, np.ndarray]:
    """Concatenate the arrays of each name."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}
