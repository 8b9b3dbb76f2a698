"""Ranks against the whole model, layer by layer, on the same layer inputs.

The whole network and its ranks run in lockstep, and the ranks are sent the whole network's sums. So every layer of a rank
gets the bits that the whole layer gets: its states must be slices bit for bit, and each sum is compared apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck.errors import InternalError
from replaycheck.schedule.parallel import Cut, RankPlan

from .network import Network, RowInput, RowOutput
from .parallel import ParallelNetwork
from .parallel_shard import split_state, take
from .parallel_sum import RowProduct, SumDifference, lockstep, sum_difference
from .state import SequenceState


@dataclass(frozen=True)
class Comparison:
    """problems: states of ranks that aren't slices of the whole, in words. sums: of each layer, attention then MLP."""

    problems: tuple[str, ...]
    sums: tuple[SumDifference, ...]


def compare_with_whole(whole: Network, ranks: ParallelNetwork, rows: Sequence[RowInput]) -> Comparison:
    """Run both on the same rows; their states are states of the whole model.

    Raises:
        InternalError: a row continues attention pages, which are one network's own.
    """
    pages = sum(len(row.state.pages) for row in rows)
    if pages:
        raise InternalError(f"the rows continue {pages} attention pages, which the ranks don't have")
    sums: list[SumDifference] = []
    activation = whole.recipe.activation

    def total(parts: Sequence[RowProduct]) -> Tensor:
        sums.append(sum_difference(parts[0], parts[1:], ranks.plan.order, activation))
        return whole.whole_product(parts)

    outputs, *found = lockstep([whole.steps(rows), *ranks.passes(rows)], total)
    problems = [
        text
        for plan, mine in zip(ranks.plan.ranks, found, strict=True)
        for r, (one, part) in enumerate(zip(outputs, mine, strict=True))
        for text in _row_problems(plan, r, one, part)
    ]
    return Comparison(tuple(problems), tuple(sums))


def _row_problems(plan: RankPlan, row: int, whole: RowOutput, part: RowOutput) -> list[str]:
    states = [(whole.final, part.final), *zip(whole.taps, part.taps, strict=True)]
    problems = [text for one, mine in states if (text := _state_problem(split_state(one, plan), mine))]
    if not torch.equal(whole.logits, part.logits):
        problems.append("logits differ on the same sums")
    return [f"rank {plan.rank}, row {row}: {text}" for text in problems]


def _state_problem(expected: SequenceState, found: SequenceState) -> str | None:
    for name in ("conv", "temporal"):
        for layer, (a, b) in enumerate(zip(getattr(expected, name), getattr(found, name), strict=True)):
            if not same_bytes(a, b):
                return f"the {name} state of recurrent layer {layer} isn't the slice of the whole"
    return None


def slice_problem(name: str, whole: Tensor, part: Tensor, cut: Cut | None) -> str | None:
    """Why a rank's tensor [...] isn't the slice that its plan says, bit for bit."""
    return None if same_bytes(take(whole, cut), part) else f"{name} isn't the slice of the whole"


def same_bytes(a: Tensor, b: Tensor) -> bool:
    """Equal shapes [...] and bytes; a NaN equals itself, and 0 isn't −0."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
