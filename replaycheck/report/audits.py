"""The audit of stored states as a table that fits a printed page, whatever the model's size: a column a layer and head, or a
layer, or all of them together, and then in words where the findings are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replaycheck.diagnose.words import Place, places
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import AuditResult, Result

from .text import number, plural

__all__ = ["AuditRow", "AuditTable", "audit_table"]

MOST = 12
"""Columns of places: with the three before them as many as a page of A4 holds (measured: 14 columns of 6 characters)."""

Column = tuple[str, str, frozenset[Place]]
"""Two lines of heading, and what is summed."""


@dataclass(frozen=True)
class AuditRow:
    """``where``: the places of findings in words, where columns are sums."""

    pool: str
    label: str
    share: str
    counts: tuple[tuple[str, bool], ...]  # (text, True if a finding) for each column
    where: str


@dataclass(frozen=True)
class AuditTable:
    """What the audit of stored states saw, a row an arm and place."""

    headings: tuple[tuple[str, str], ...]  # two lines each
    rows: tuple[AuditRow, ...]

    @property
    def summed(self) -> bool:
        """Whether a finding needs words to say where it is."""
        return any(row.where for row in self.rows)


def audit_table(result: Result) -> AuditTable:
    """Audits summed over arms: a row a pool dtype and kind of snapshot."""
    pool_of = {arm.name: arm.pool for arm in result.arms}
    columns = _columns({(audit.layer, audit.head) for audit in result.audits})
    grouped: dict[tuple[PoolDtype, str], list[AuditResult]] = {}
    for audit in result.audits:
        if audit.arm in pool_of and audit.states:
            grouped.setdefault((pool_of[audit.arm], audit.label), []).append(audit)
    order = list(PoolDtype)
    keys = sorted(grouped, key=lambda key: (order.index(key[0]), key[1]))
    headings = tuple((above, below) for above, below, _ in columns)
    return AuditTable(headings, tuple(_row(*key, grouped[key], columns) for key in keys))


def _columns(everywhere: set[Place]) -> tuple[Column, ...]:
    layers, heads = sorted({layer for layer, _ in everywhere}), {head for _, head in everywhere}
    if len(everywhere) <= MOST:
        return tuple(
            (f"layer {layer}", f"head {head}", frozenset({(layer, head)})) for layer, head in sorted(everywhere)
        )
    said = plural(len(heads), "head")
    if len(layers) <= MOST:
        return tuple((f"layer {at}", said, frozenset(each for each in everywhere if each[0] == at)) for at in layers)
    return ((plural(len(layers), "layer"), said, frozenset(everywhere)),)


def _row(pool: PoolDtype, label: str, of: Sequence[AuditResult], columns: Sequence[Column]) -> AuditRow:
    low = min((audit.min_share for audit in of if audit.min_share is not None), default=None)
    high = max((audit.max_share for audit in of if audit.max_share is not None), default=None)
    shares = number(low) if low == high else f"{number(low)} to {number(high)}"
    counts = tuple(_count(pool, of, those) for *_, those in columns)
    summed = any(len(those) > 1 for *_, those in columns)
    return AuditRow(str(pool), label, shares, counts, _where(pool, of, columns) if summed else "")


def _where(pool: PoolDtype, of: Iterable[AuditResult], columns: Sequence[Column]) -> str:
    found = {(audit.layer, audit.head) for audit in of if audit.bf16_like}
    return "" if pool is PoolDtype.BF16 else places(found, set().union(*(those for *_, those in columns)))


def _count(pool: PoolDtype, of: Iterable[AuditResult], those: frozenset[Place]) -> tuple[str, bool]:
    here = [audit for audit in of if (audit.layer, audit.head) in those]
    states, like = sum(audit.states for audit in here), sum(audit.bf16_like for audit in here)
    if pool is PoolDtype.BF16:
        return f"{states:,}", False
    return f"{like:,} / {states:,}", like > 0
