"""Tables of the report that need more than a loop: first divergences and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import pandas as pd

from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.environment import Environment

from .paths import Spot
from .privacy import HIDDEN
from .streams import KINDS, Extent, Key
from .text import number
from .tokens import named

__all__ = [
    "DivergenceTable",
    "divergence_table",
    "environment_difference",
    "environment_rows",
    "examples",
    "machine",
]

ORDER = (
    Effect.EXACT,
    Effect.STATE,
    Effect.TOGETHER,
    Effect.TOTAL,
    Effect.GRID,
    Effect.PARALLEL,
    Effect.ACTIVATION,
)
"""What must be equal comes first."""


@dataclass(frozen=True)
class DivergenceTable:
    """First divergences by effect and pool, as text."""

    names: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]  # (column, text) pairs
    why_empty: str = ""


def divergence_table(
    found: Mapping[Key, Mapping[str, Extent]], vocabulary: str | None, show_text: bool = False
) -> DivergenceTable:
    """One row an effect and pool dtype: how many branches diverged, how soon, and the clearest of the soonest ones.

    Without ``show_text`` no token is shown, neither its text nor its id, which is as good as its text.
    """
    present = [
        key for key in product(ORDER, PoolDtype) if key in found and any(e.happened for e in found[key].values())
    ]
    rows = tuple(_divergence(key, found[key], vocabulary, show_text) for key in present)
    if not rows:
        known = sum(extent.branches for kinds in found.values() for extent in kinds.values())
        why = f"None of {known:,} comparisons of a branch diverged." if known else "No branch was compared."
        return DivergenceTable((), (), why)
    return DivergenceTable(tuple(name for name, _ in rows[0]), rows)


def soonest(kinds: Mapping[str, Extent]) -> pd.Series | None:
    """The soonest branch of the clearest kind that happened."""
    return next((kinds[kind].soonest for kind in KINDS if kinds[kind].soonest is not None), None)


def examples(found: Mapping[Key, Mapping[str, Extent]]) -> list[Spot]:
    """Where the example of each row of :func:`divergence_table` is."""
    rows = [soonest(found[key]) for key in product(ORDER, PoolDtype) if key in found]
    return [_spot(row) for row in rows if row is not None]


def _spot(row: pd.Series) -> Spot:
    size = abs(float(row["dlogp"])) if pd.notna(row["dlogp"]) else 0.0
    return Spot(str(row["cell"]), str(row["trace"]), int(row["branch"]), int(row["turn"]), int(row["position"]), size)


def _divergence(
    key: Key, kinds: Mapping[str, Extent], vocabulary: str | None, show_text: bool
) -> tuple[tuple[str, str], ...]:
    row = soonest(kinds)
    assert row is not None
    tokens = [named(row[name], vocabulary) if show_text else HIDDEN for name in ("token_a", "token_b")]
    return (
        ("effect", f"{key[0]}, {key[1]} pool"),
        *((heading, _extent(kinds[kind])) for kind, heading in KINDS.items()),
        ("example", f"{row['trace']}, branch {row['branch']}, turn {row['turn']}, position {row['position']:,}"),
        ("of", str(row["cell"]).partition("/")[2]),
        ("token", tokens[0] if tokens[0] == tokens[1] else f"{tokens[0]} → {tokens[1]}"),
        ("margin, nat", _float(row["margin"])),
        ("Δ log p, nat", _float(row["dlogp"])),
    )


def _extent(extent: Extent) -> str:
    """``12 of 48, from token 63``: how many branches, and how soon after the restore."""
    count = f"{extent.happened:,} of {extent.branches:,}"
    offset = None if extent.soonest is None else extent.soonest["offset_from_restore"]
    return count if offset is None or pd.isna(offset) else f"{count}, from token {int(offset):,}"


def _float(value: object) -> str:
    return number(None if pd.isna(value) else float(str(value)))


def environment_rows(environment: Environment) -> list[tuple[str, str]]:
    """Name and value, nested names joined by a dot; what isn't there says so."""
    rows = []
    for name, value in environment.model_dump(mode="json", exclude={"schema_version", "command"}).items():
        inner = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        rows += [(key, _said(one)) for key, one in inner.items()]
    return rows


def machine(environment: Environment) -> str:
    """What most questions about a run begin with: versions, device, processor and when, in a line."""
    of = environment.versions
    names = {"replaycheck": "replaycheck", "torch": "torch", "triton": "triton", "python": "Python"}
    versions = [f"{shown} {of[name]}" for name, shown in names.items() if of.get(name)]
    where = f"{environment.device_name or environment.device}, {environment.cpu}, {environment.cores} cores"
    # A run that was cut off has no time.
    took = "" if environment.seconds is None else f", {environment.seconds:.0f} s"
    when = environment.started.replace("T", " ").replace("+00:00", " UTC")
    return f"{', '.join(versions)}; {where}; {when}{took}"


def _said(value: object) -> str:
    """Seconds have nine digits after the point in the file; an empty text would look like a fault of the page."""
    return "none" if value in (None, "") else f"{value:.6g}" if isinstance(value, float) else str(value)


def environment_difference(mine: Environment, other: Environment) -> list[tuple[str, str, str]]:
    """Name, value here, value there, of what differs between two runs; times are left out, since they always do."""
    ours, theirs = (dict(environment_rows(each)) for each in (mine, other))
    names = [name for name in {**ours, **theirs} if not name.startswith(_TIMES)]
    return [
        (name, ours.get(name, "none"), theirs.get(name, "none")) for name in names if ours.get(name) != theirs.get(name)
    ]


_TIMES = ("started", "finished", "seconds", "cpu_seconds")
