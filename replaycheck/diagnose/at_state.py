"""What the wrong state looks like: beside the right one, beside its own state before a store, and beside the oracle's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from replaycheck.replay.worker import network as whole_network
from replaycheck.subjects.lab.pool import TORCH_DTYPE

from .again import Case, Replayed
from .at_step import loaded
from .casts import explained_by, quantised
from .fading import fading
from .holds import held_by_match
from .lines import lines_of
from .nearest import leading_layers, nearest
from .symptoms import Symptoms
from .trail import Key, Op, States, Trail
from .variants import explaining_variants
from .windows import ends_of, read_window

__all__ = ["of_state"]


def of_state(case: Case, facts: Symptoms, found: Replayed) -> Symptoms:
    """What the wrong state looks like, beside the right one and the oracle."""
    wrong = facts.wrong
    assert wrong is not None
    mine, other = wrong.step.states, wrong.reference.states if wrong.reference else None
    if mine is None or other is None:
        return facts
    at = facts.layer
    error = _relative(mine.temporal[at], other.temporal[at])
    facts = replace(
        facts,
        error=error,
        blank=_blank(mine.temporal),
        cast=_cast(case, facts, found),
        quantised=wrong.key.op in (Op.LOAD, Op.STORE, Op.COMMIT)
        and facts.recurrent
        and quantised(torch.from_numpy(mine.temporal[at])),
        rounded_more=wrong.key.op in (Op.COMPUTE, Op.SNAPSHOT) and _fits(case, mine.temporal[at]),
        transposed=_transposed(mine.temporal, other.temporal),
        order=_order(mine.temporal[at], other.temporal[at]),
        shuffled=_shuffled(mine.conv, other.conv),
    )
    return _beside_oracle(case, facts, found, mine)


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        apart = float(np.linalg.norm(a.astype(np.float64) - b))
    size = float(np.linalg.norm(b.astype(np.float64)))
    return apart / size if size and np.isfinite(apart) else (0.0 if apart == 0 else float("inf"))


def _blank(temporal: np.ndarray) -> str:
    if np.isnan(temporal).all():
        return "nan"
    return "zero" if not temporal.any() else ""


def _fits(case: Case, temporal: np.ndarray) -> bool:
    """Whether a state before its cast has no more bits than the pool's dtype, or than bf16."""
    x = torch.from_numpy(np.ascontiguousarray(temporal))
    dtypes = {TORCH_DTYPE[case.candidate.pool], torch.bfloat16} - {torch.float32}
    return any(torch.equal(x.to(dtype).float(), x) for dtype in dtypes)


def _transposed(mine: np.ndarray, other: np.ndarray) -> bool:
    square = mine.shape[-1] == mine.shape[-2] and not np.array_equal(mine, other)
    return square and np.array_equal(mine, other.swapaxes(-1, -2))


def _order(mine: np.ndarray, other: np.ndarray) -> tuple[int, ...]:
    """Heads of the reference that are the candidate's heads, bit for bit, if that is another order; else nothing."""
    found = [[h for h in range(len(other)) if np.array_equal(head, other[h])] for head in mine]
    order = tuple(each[0] for each in found if each)
    return order if len(set(order)) == len(mine) and order != tuple(range(len(mine))) else ()


def _shuffled(mine: np.ndarray, other: np.ndarray) -> bool:
    """Whether windows [L, W − 1, D] that differ hold the same values, layer by layer."""
    unequal = [layer for layer in range(len(mine)) if not np.array_equal(mine[layer], other[layer])]
    return bool(unequal) and all(
        np.array_equal(np.sort(mine[layer], axis=None), np.sort(other[layer], axis=None)) for layer in unequal
    )


def _cast(case: Case, facts: Symptoms, found: Replayed) -> tuple[str, str] | None:
    """A cast that leads from the candidate's own state before a store to what was stored, or bf16 inside a call."""
    wrong = facts.wrong
    assert wrong is not None
    if not facts.recurrent:
        return None
    mine, right = wrong.step.states, wrong.reference.states if wrong.reference else None
    live = _before_store(found.candidate, wrong.key) if wrong.key.op is not Op.SNAPSHOT else right
    if mine is None or live is None or right is None:
        return None
    stored = torch.from_numpy(mine.temporal)
    pool = case.candidate.pool
    if wrong.key.op is Op.SNAPSHOT:
        near = _relative(mine.temporal[facts.layer], right.temporal[facts.layer])
        # A state as a kernel keeps it for its output pass: rounded to activations before it was ever taken.
        like = torch.equal(stored.bfloat16().float(), stored)
        return ("RC101", "bf16 inside the call") if like and 0 < near < BF16_NEAR else None
    return explained_by(torch.from_numpy(live.temporal), stored, pool)


BF16_NEAR = 2.0**-7
"""One rounding to bf16 moves a state by at most 2^-8 of its size, relative; twice that leaves room for what it continues."""


def _before_store(trail: Trail, key: Key) -> States | None:
    """What the same request had computed at that position, before any cast."""
    for seen in reversed(trail.steps):
        mine = (seen.key.request, seen.key.position) == (key.request, key.position)
        if mine and seen.key.op in (Op.SNAPSHOT, Op.COMPUTE) and seen.states is not None:
            return seen.states
    return None


def _beside_oracle(case: Case, facts: Symptoms, found: Replayed, mine: States) -> Symptoms:
    """Whose tokens the state holds; and which arithmetic gives it, where the inputs were right."""
    wrong = facts.wrong
    assert wrong is not None
    network, schedule = whole_network(case.work.model, case.work.recipe, case.work.kernels), found.candidate.schedule
    if not leading_layers(network) or network.device.type != "cpu":
        return facts
    row = wrong.step.row
    lines = lines_of(schedule, wrong.key.request, row)
    if facts.recurrent and facts.layer == 0 and not facts.blank and facts.finite:
        matches = tuple(nearest(network, mine.temporal[0], lines))
        facts = replace(facts, nearest=matches, holds=facts.holds or held_by_match(matches, lines, facts.meant))
    if facts.recurrent and facts.finite:
        facts = replace(facts, fading=fading(network, found, wrong, facts.layer, facts.pool))
    if facts.conv and wrong.conv[0] == wrong.layers[0]:
        window = read_window(network, mine.conv[0])
        ends = ends_of(window, schedule.requests[wrong.key.request].tokens) if window else []
        facts = replace(facts, window=window, window_ends=tuple(ends))
    if wrong.key.op is Op.COMPUTE and row is not None:
        before = loaded(found.candidate, row).states
        if before is not None:
            variants = explaining_variants(case.work, network, schedule, row, before, mine)
            facts = replace(facts, variants=tuple(variants))
    return facts
