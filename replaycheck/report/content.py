"""What the templates of report.html show, section by section, gathered from a saved run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from replaycheck.gates.sums import sum_traces
from replaycheck.replay.parts import RunTables
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import Finding, Result

from . import aligned, heat, parted, paths, plots, strip
from .attribution import attribution_chart, attribution_rows
from .audits import audit_table
from .budget import Budget, Kept, keep
from .data import packed
from .equivalence import equivalence_bars
from .figure import Chart
from .floors import FLOOR_HEADINGS, floor_rows
from .gate_lines import by_weight
from .matrix import EFFECTS, matrix
from .paths import Spot, TraceRow, trace_rows
from .privacy import shows_text
from .saved import Saved
from .shown import user_effect, worst_cells
from .streams import PAIR_COLUMNS, Extent, Key, Spread, extents, keys, layer_errors, spreads, whole
from .strip import Strip, strips
from .tokens import glyphs
from .turns import QUANTILES, quantile_rows, turn_table
from .verdict import answer
from .views import divergence_table, environment_difference, environment_rows, examples, machine

__all__ = ["content"]

SECTIONS = {
    "findings": "findings",
    "equivalence": "same enough?",
    "matrix": "matrix",
    "turns": "turns",
    "divergences": "first divergences",
    "aligned": "round restores",
    "distributions": "sizes",
    "states": "states",
    "attribution": "attribution",
    "windows": "worst window",
    "probes": "probes",
    "audits": "audit",
    "gates": "gates",
    "environment": "environment",
    "reproduce": "reproduce",
    "raw": "raw data",
}

FILES = {
    "result.json": "every number of this page that judges",
    "environment.json": "versions, device, command, times",
    "pairs/": "every position of every comparison (parquet)",
    "observations/": "every position of every arm, with the 20 most likely tokens (parquet)",
    "restores/": "every restore, by layer and head (parquet)",
    "divergences.parquet": "where each branch parted, or that it didn't",
    "junit.xml": "the gates, for CI",
    "summary.md": "to paste into an issue",
}

CONTEXTS = 4
"""Rows of the divergence table whose tokens are shown."""
WINDOWS = 2
"""Worst windows: a second one shows whether the first is alone."""


def content(saved: Saved, show_text: bool, against: Saved | None, budget: Budget) -> dict[str, Any]:
    """The names that the templates use."""
    result = saved.result
    return (
        {"result": result, "answer": answer(result), "sections": SECTIONS.items()}
        | _compared(saved)
        | _where(saved, shows_text(saved.environment, show_text), budget)
        | _states(saved, budget)
        | _details(saved, against, budget)
    )


def _compared(saved: Saved) -> dict[str, Any]:
    result = saved.result
    by_turn = spreads(result, saved.blocks("pairs", *PAIR_COLUMNS))
    together = whole(by_turn)
    return {
        "bars": equivalence_bars(result, sum_traces(RunTables(saved.run))),
        "matrix": matrix(result),
        "effects": {
            effect: EFFECTS[effect] for effect in EFFECTS if any(cell.effect is effect for cell in result.cells)
        },
        "turns": turn_table(by_turn),
        "distributions": _distributions(result, together),
        "quantiles": quantile_rows(together),
        "quantile_names": tuple(QUANTILES),
    }


def _distributions(result: Result, together: Mapping[Key, Spread]) -> list[Chart]:
    present = {arm.pool for arm in result.arms}
    return [plots.distribution(together, pool) for pool in PoolDtype if pool in present]


def _where(saved: Saved, shown: bool, budget: Budget) -> dict[str, Any]:
    result = saved.result
    found = extents(result, saved.blocks("divergences"))
    effect, rows = _traces(saved)
    kept = keep(list(rows.values()), lambda row: row.badness, budget)
    contexts, windows = _strips(saved, _contexts(found), _windows(kept), shown)
    worst = worst_cells(result, Effect.TOTAL)
    code = result.findings[0].code if result.findings else "first"
    return {
        "divergences": divergence_table(found, result.logprobs.vocabulary, shown),
        "contexts": contexts,
        "anchors": [_anchor(code, at, one) for at, one in enumerate(contexts)],
        "finding_anchors": [_finding_anchor(finding, contexts) for finding in result.findings],
        "free": [cell for cell in result.cells if cell.free][: budget.rows],
        "aligned": aligned.aligned_chart(aligned.aligned(result, saved.blocks("pairs", *aligned.COLUMNS))),
        "survival": parted.survival_chart(parted.curves(worst, saved.blocks("divergences", *parted.COLUMNS))),
        "windows": windows,
        "traces": kept,
        "traces_effect": effect or "",
    }


def _anchor(code: str, at: int, one: Strip) -> str:
    """Those after the first carry their effect and place, so that no two are alike, nor like a finding's."""
    name = strip.anchor(code, one.spot.trace, one.spot.turn)
    return f"{name}-tokens" if at == 0 else f"{name}-{one.effect}-{at + 1}"


def _finding_anchor(finding: Finding, contexts: Sequence[Strip]) -> str:
    """With the trace and turn where it shows first; of one that is in no one trace, where the run parts first."""
    place = finding.place or (contexts[0].spot if contexts else None)
    return strip.anchor(finding.code, place.trace, place.turn) if place else finding.code


def _traces(saved: Saved) -> tuple[Effect | None, dict[str, TraceRow]]:
    """Of the exact comparisons if one of them differs, which none may; else of those that a user sees."""
    result = saved.result
    broken = any(cell.effect is Effect.EXACT and cell.bits_differ for cell in result.cells)
    effect = Effect.EXACT if broken else user_effect(result)
    if effect is None:
        return None, {}
    return effect, trace_rows(keys(result), effect, saved.blocks("pairs", *paths.COLUMNS))


_CONTEXT_ORDER = {Effect.EXACT.value: 0, Effect.TOTAL.value: 1, Effect.STATE.value: 2}


def _contexts(found: Mapping[Key, Mapping[str, Extent]]) -> list[Spot]:
    """Places: what must be equal, then what a user sees, then what it is made of; a place once."""
    spots = sorted(examples(found), key=lambda spot: _CONTEXT_ORDER.get(spot.cell.partition("/")[0], 9))
    places = {
        (spot.cell.partition("/")[0], spot.trace, spot.branch, spot.turn, spot.position): spot for spot in spots[::-1]
    }
    return sorted(places.values(), key=spots.index)[:CONTEXTS]


def _windows(kept: Kept[TraceRow]) -> list[Spot]:
    return [row.worst for row in kept.worst if row.worst is not None][:WINDOWS]


def _strips(saved: Saved, first: list[Spot], second: list[Spot], shown: bool) -> tuple[list[Strip], list[Strip]]:
    """Both lists from one pass over the tables."""
    every = strips(
        saved.result,
        [*first, *second],
        saved.blocks("pairs", *strip.PAIR_COLUMNS),
        saved.blocks("observations", *strip.OBSERVATION_COLUMNS),
        glyphs(saved.result.logprobs.vocabulary, shown),
    )
    return every[: len(first)], every[len(first) :]


def _states(saved: Saved, budget: Budget) -> dict[str, Any]:
    result = saved.result
    columns = ("cell", "dtype", "layer", "rel_error", "one_cast_error")
    return {
        "layers": plots.layer_error(layer_errors(result, saved.blocks("restores", *columns))),
        "heat": heat.heat(result, saved.blocks("restores", *heat.COLUMNS), budget),
        "attribution": attribution_chart(result),
        "attributions": attribution_rows(result)[: budget.rows],
    }


def _details(saved: Saved, against: Saved | None, budget: Budget) -> dict[str, Any]:
    result, environment = saved.result, saved.environment
    return {
        "gates": by_weight(result.gates),
        "floors": floor_rows(result),
        "floor_headings": FLOOR_HEADINGS,
        "audits": audit_table(result),
        "environment": environment_rows(environment),
        "machine": machine(environment),
        "against": None if against is None else against.run.path.name,
        "difference": None if against is None else environment_difference(environment, against.environment),
        "command": shlex.join(environment.command),
        "run": shlex.quote(str(saved.run.path)),
        "files": FILES.items(),
        "data": packed(saved.run.path / "result.json", budget.data),
    }
