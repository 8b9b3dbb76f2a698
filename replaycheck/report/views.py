"""Tables of the report that need more than a loop: first divergences, the audit by place, the environment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import pandas as pd

from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.environment import Environment
from replaycheck.schema.result import AuditResult, Result
from replaycheck.traces import vocabulary as ascii_vocabulary

from .text import number

__all__ = ["AuditRow", "AuditTable", "DivergenceTable", "audit_table", "divergence_table", "environment_rows"]

ORDER = (Effect.EXACT, Effect.STATE, Effect.TOTAL, Effect.GRID, Effect.PARALLEL, Effect.ACTIVATION)
"""What must be equal comes first."""
KINDS = {"argmax": "other top-1 token", "tolerance": "over tolerance", "bits": "any bit"}
"""From what changes words to what nobody sees; the first kind that happened gives the example."""


@dataclass(frozen=True)
class DivergenceTable:
    names: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]  # (column, text) pairs
    why_empty: str = ""


def divergence_table(result: Result, divergences: pd.DataFrame, vocabulary: str | None) -> DivergenceTable:
    """One row an effect and pool dtype: how many branches diverged, how soon, and the clearest of the soonest ones."""
    pool_of = {arm.name: arm.pool for arm in result.arms}
    keys = {cell.name: (cell.effect, pool_of[cell.candidate]) for cell in result.cells if cell.candidate in pool_of}
    known = divergences[divergences["cell"].isin(keys)]
    groups = dict(iter(known.groupby(known["cell"].map(keys))))
    present = [key for key in product(ORDER, PoolDtype) if key in groups and not groups[key]["censored"].all()]
    rows = tuple(_divergence(key, groups[key], vocabulary) for key in present)
    if not rows:
        why = f"None of {len(known):,} comparisons of a branch diverged." if len(known) else "No branch was compared."
        return DivergenceTable((), (), why)
    return DivergenceTable(tuple(name for name, _ in rows[0]), rows)


def _divergence(
    key: tuple[Effect, PoolDtype], branches: pd.DataFrame, vocabulary: str | None
) -> tuple[tuple[str, str], ...]:
    soonest = {kind: _soonest(branches[branches["kind"] == kind]) for kind in KINDS}
    row = next(row for row in soonest.values() if row is not None)
    tokens = [_token(row[name], vocabulary) for name in ("token_a", "token_b")]
    return (
        ("effect", f"{key[0]}, {key[1]} pool"),
        *((heading, _extent(branches[branches["kind"] == kind], soonest[kind])) for kind, heading in KINDS.items()),
        ("example", f"{row['trace']}, branch {row['branch']}, turn {row['turn']}, position {row['position']:,}"),
        ("of", str(row["cell"]).partition("/")[2]),
        ("token", tokens[0] if tokens[0] == tokens[1] else f"{tokens[0]} → {tokens[1]}"),
        ("margin, nat", _float(row["margin"])),
        ("Δ log p, nat", _float(row["dlogp"])),
    )


def _soonest(branches: pd.DataFrame) -> pd.Series | None:
    """The branch that diverged after the fewest tokens since its first restore; None if none did."""
    happened = branches[~branches["censored"].astype(bool)]
    if happened.empty:
        return None
    return happened.sort_values(["offset_from_restore", "position", "cell", "trace"], na_position="last").iloc[0]


def _extent(branches: pd.DataFrame, soonest: pd.Series | None) -> str:
    """``12 of 48, from token 63``: how many branches, and how soon after the restore."""
    happened = len(branches) - int(branches["censored"].sum())
    count = f"{happened:,} of {len(branches):,}"
    offset = None if soonest is None else soonest["offset_from_restore"]
    return count if offset is None or pd.isna(offset) else f"{count}, from token {int(offset):,}"


def _float(value: object) -> str:
    return number(None if pd.isna(value) else float(str(value)))


def _token(token: object, vocabulary: str | None) -> str:
    """The text of a token where the vocabulary is known, and its id."""
    if pd.isna(token):
        return "–"
    identifier = int(str(token))
    if vocabulary == ascii_vocabulary.NAME and 0 <= identifier < ascii_vocabulary.SIZE:
        return f"{ascii_vocabulary.decode([identifier])!r} ({identifier})"
    return str(identifier)


@dataclass(frozen=True)
class AuditRow:
    pool: str
    label: str
    share: str
    counts: tuple[tuple[str, bool], ...]  # (text, True if a finding) for each place


@dataclass(frozen=True)
class AuditTable:
    places: tuple[tuple[int, int], ...]  # (layer, head)
    rows: tuple[AuditRow, ...]


def audit_table(result: Result) -> AuditTable:
    """Audits summed over arms: a row a pool dtype and kind of snapshot, a column a layer and head."""
    pool_of = {arm.name: arm.pool for arm in result.arms}
    places = tuple(sorted({(audit.layer, audit.head) for audit in result.audits}))
    grouped: dict[tuple[PoolDtype, str], list[AuditResult]] = {}
    for audit in result.audits:
        if audit.arm in pool_of and audit.states:
            grouped.setdefault((pool_of[audit.arm], audit.label), []).append(audit)
    order = list(PoolDtype)
    keys = sorted(grouped, key=lambda key: (order.index(key[0]), key[1]))
    return AuditTable(places, tuple(_audit_row(*key, grouped[key], places) for key in keys))


def _audit_row(pool: PoolDtype, label: str, of: list[AuditResult], places: Iterable[tuple[int, int]]) -> AuditRow:
    low = min((audit.min_share for audit in of if audit.min_share is not None), default=None)
    high = max((audit.max_share for audit in of if audit.max_share is not None), default=None)
    shares = number(low) if low == high else f"{number(low)} to {number(high)}"
    return AuditRow(pool.value, label, shares, tuple(_count(pool, of, place) for place in places))


def _count(pool: PoolDtype, of: list[AuditResult], place: tuple[int, int]) -> tuple[str, bool]:
    here = [audit for audit in of if (audit.layer, audit.head) == place]
    states, like = sum(audit.states for audit in here), sum(audit.bf16_like for audit in here)
    if pool is PoolDtype.BF16:
        return f"{states:,}", False
    return f"{like:,} / {states:,}", like > 0


def environment_rows(environment: Environment) -> list[tuple[str, str]]:
    """Name and value, nested names joined by a dot; what isn't there says so."""
    rows = []
    for name, value in environment.model_dump(mode="json", exclude={"schema_version", "command"}).items():
        inner = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        rows += [(key, "none" if one is None else str(one)) for key, one in inner.items()]
    return rows
