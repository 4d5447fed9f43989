"""What a chain has gathered so far, block by block, and what its future depends on."""

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
    """All of a chain that its future depends on.

    Attributes
    ----------
    values : (Q,)
    adaptation
        State of the adaptation.
    iteration : int
        Iterations done, warm-up included.
    seconds : tuple of two floats
        Warm-up and sampling time so far.
    carried : dict of arrays
        What is carried of the kernel's state, by name; nothing before the first iteration.
    """

    values: np.ndarray
    adaptation: PyTree
    iteration: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    carried: dict[str, np.ndarray] = {}


class Block(NamedTuple):
    """What some iterations, all of warm-up or all of sampling, bring: ten, or a multiple, or fewer.

    Attributes
    ----------
    end : Position
        Where the chain is now.
    num : int
    is_warmup : bool
    draws : dict of arrays (num, ...)
        What is recorded of each draw; of warm-up as well.
    stats : dict of arrays (num,)
    moments : dict of Moments
        Of what the model computes on the way, of which only these are kept.
    byproducts : dict of arrays (num, ...)
        Of what the model computes on the way, the plan's fields; of sampling alone.
    """

    end: Position
    num: int
    is_warmup: bool
    draws: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    moments: dict[str, Moments]
    byproducts: dict[str, np.ndarray] = {}


class Increment(NamedTuple):
    """What a block adds to what is saved of a chain.

    Attributes
    ----------
    num : int
        Iterations.
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
    """Where a chain is and what it has gathered; saved between blocks.

    Attributes
    ----------
    position : Position
    blocks : list of dict
        ``draws``, ``stats`` (each a dict of arrays) of sampling, piece by piece, fields left out.
    fields : dict of FieldRecord
    moments : dict of Moments
    warmup_blocks : list of dict of arrays
    recorded : dict of arrays
        What is recorded of a draw, taken at the position.
    """

    position: Position
    blocks: list = field(default_factory=list)
    fields: dict[str, FieldRecord] = field(default_factory=dict)
    moments: dict[str, Moments] = field(default_factory=dict)
    warmup_blocks: list = field(default_factory=list)
    recorded: dict = field(default_factory=dict)

    @property
    def num_draws(self) -> int:
        """Draws so far."""
        return sum(map(_length, self.blocks))

    def add(self, plan: Plan, block: Block) -> Increment:
        """Add what a block has brought; returns it as it is saved."""
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
            with np.errstate(invalid="ignore", over="ignore"):  # the verdict tells of such draws
                short[f"{name}_field_mean"] = np.mean(values, axis=1)
                short[f"{name}_field_std"] = np.std(values, axis=1)
        added = {"draws": short, "stats": block.stats}
        self.append_block(added)
        for name, moments in block.moments.items():
            before = self.moments.get(name)
            self.moments[name] = moments if before is None else before.merge(moments)
        return Increment(block.num, {}, added, fields)

    def append_block(self, block: dict) -> None:
        """Append a block; neighbours as long as each other are joined, so that few are left.

        Small arrays take many times the memory of the numbers in them.
        """
        self.blocks.append(block)
        while len(self.blocks) > 1 and _length(self.blocks[-1]) >= _length(self.blocks[-2]):
            last, one = self.blocks.pop(), self.blocks.pop()
            self.blocks.append({kind: _joined([one[kind], last[kind]]) for kind in one})


def start_position(plan: Plan, values) -> Position:
    """The position of a chain that has not moved yet, at values (Q,)."""
    values = np.asarray(values)
    return Position(values, plan.kernel.adaptation.init(values.size))


def start_chain(plan: Plan, values) -> ChainState:
    """A chain that has not moved yet, at values (Q,)."""
    return ChainState(start_position(plan, values))


def gather(plan: Plan, state: ChainState) -> Chain:
    """What a chain has gathered, as a result."""
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
    """Arrays of the same names, one behind the other."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}
