"""RC101: which stored states had been rounded to bf16 before they were stored, and which are proven clean.

The proof is in the bits: a value that was once bf16 keeps zero low mantissa bits in a wider pool.
In a bf16 pool bits can't show it; there only equality with split-rounded proves that one cast was all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import AuditResult, Finding

from .evidence import Evidence
from .restores import first_of_arms
from .words import Place, listed, places, pools

__all__ = ["rounded_arms", "rounded_through_bf16"]

_KINDS = {
    "interior": "snapshots inside an extend that doesn't end on the grid",
    "interior-grid": "snapshots inside an extend that ends on the grid",
    "final": "snapshots at the end of an extend off the grid",
    "final-grid": "snapshots at the end of an extend on the grid",
    "decode": "snapshots taken after decode steps",
}


def _kind(label: str) -> str:
    return f"{_KINDS.get(label, 'snapshots')} (label {label})"


@dataclass(frozen=True)
class Written:
    """What one kind of snapshot wrote into the pools of one dtype; a state is one layer and head of a checkpoint."""

    pool: PoolDtype
    label: str
    states: int
    bf16_like: int
    where: frozenset[Place]  # places with a bf16-like state
    low: float | None  # smallest and largest share of elements that fit bf16
    high: float | None

    @property
    def count(self) -> str:
        whole = "all " if self.bf16_like == self.states else f"{self.bf16_like:,} of "
        return f"{whole}{self.states:,} states"


def rounded_arms(evidence: Evidence) -> set[str]:
    """Arms that stored bf16-like states though their pool is wider."""
    return {row.arm for row in evidence.audits if row.bf16_like and _pool(evidence, row) is not PoolDtype.BF16}


def rounded_through_bf16(evidence: Evidence) -> Finding | None:
    """RC101, in words: pools, kinds of snapshots, layers and heads; then what the audits prove clean."""
    written = _written(evidence)
    dirty = [one for one in written if one.bf16_like and one.pool is not PoolDtype.BF16]
    if not dirty:
        return None
    universe = {(row.layer, row.head) for row in evidence.audits}
    labels = {one.label for one in written}
    sentences = [_dirty_sentence(group, universe) for group in _alike(dirty)]
    clean = _clean_kinds(written, {one.pool for one in dirty}, labels)
    clean += _clean_bf16(evidence, written) + _clean_kernels(evidence)
    sentences += [f"Clean are {listed(clean)}."] if clean else []
    place = first_of_arms(evidence, rounded_arms(evidence))
    return evidence.finding("RC101", " ".join(sentences), [_line(one) for one in written], place)


def _pool(evidence: Evidence, row: AuditResult) -> PoolDtype | None:
    arm = evidence.arm.get(row.arm)
    return arm.pool if arm else None


def _written(evidence: Evidence) -> list[Written]:
    rows: dict[tuple[PoolDtype, str], list[AuditResult]] = defaultdict(list)
    for row in evidence.audits:
        pool = _pool(evidence, row)
        if pool is not None:
            rows[pool, row.label].append(row)
    order = list(PoolDtype)
    return [
        Written(
            pool=pool,
            label=label,
            states=sum(row.states for row in of),
            bf16_like=sum(row.bf16_like for row in of),
            where=frozenset((row.layer, row.head) for row in of if row.bf16_like),
            low=min((row.min_share for row in of if row.min_share is not None), default=None),
            high=max((row.max_share for row in of if row.max_share is not None), default=None),
        )
        for (pool, label), of in sorted(rows.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    ]


def _alike(dirty: list[Written]) -> list[list[Written]]:
    """Pools that show the same label at the same places share a sentence."""
    groups: dict[tuple[str, frozenset[Place]], list[Written]] = defaultdict(list)
    for one in dirty:
        groups[one.label, one.where].append(one)
    return list(groups.values())


def _dirty_sentence(group: list[Written], universe: set[Place]) -> str:
    return (
        f"In {pools({one.pool for one in group})}: {_kind(group[0].label)}, in {places(group[0].where, universe)} "
        f"({listed(f'{one.pool}: {one.count}' for one in group)})."
    )


def _clean_kinds(written: list[Written], within: set[PoolDtype], labels: set[str]) -> list[str]:
    """The kinds of snapshots that wrote states into the same pools, none of them bf16-like."""
    kinds = []
    for label in [label for label in dict.fromkeys([*_KINDS, *sorted(labels)]) if label in labels]:
        of = [one for one in written if one.label == label and one.pool in within and one.states]
        if of and not any(one.bf16_like for one in of):
            kinds.append(f"{_kind(label)[:-1]}: 0 of {sum(one.states for one in of):,} states)")
    return kinds


def _clean_kernels(evidence: Evidence) -> list[str]:
    """Pairs of history and tail kernel whose arms stored states in a wider pool, none of them bf16-like."""
    kernels = {arm.name: f"{arm.history}-{arm.tail}" for arm in evidence.arms if arm.pool is not PoolDtype.BF16}
    audited = {kernels[row.arm] for row in evidence.audits if row.arm in kernels and row.states}
    clean = sorted(audited - {kernels[name] for name in rounded_arms(evidence)})
    return [f"all arms with {' or '.join(clean)} as kernels of history and tail"] if clean else []


def _clean_bf16(evidence: Evidence, written: list[Written]) -> list[str]:
    arms = {arm.name for arm in evidence.arms if arm.pool is PoolDtype.BF16}
    exact = [cell for cell in evidence.cells if cell.effect is Effect.EXACT and cell.candidate in arms]
    exact = [cell for cell in exact if cell.positions and not cell.vacuous]
    audited = [one for one in written if one.pool is PoolDtype.BF16 and one.states]
    if not audited or not exact or any(one.bf16_like for one in audited):
        return []
    if any(cell.bits_differ or cell.restore_max_error for cell in exact):
        return []
    positions = sum(cell.positions for cell in exact)
    return [f"the bf16 pool (warm equals split-rounded bit for bit at all {positions:,} positions)"]


def _line(one: Written) -> str:
    share = "not measured" if one.low is None or one.high is None else f"{one.low:.3g} to {one.high:.3g}"
    bits = "bf16 by declaration" if one.pool is PoolDtype.BF16 else f"{one.bf16_like:,} bf16-like"
    return f"{one.pool} pool, {one.label}: {one.states:,} states, {bits}; share of elements that fit bf16: {share}"
