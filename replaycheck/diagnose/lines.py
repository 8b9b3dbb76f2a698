"""Lines of tokens that a wrong state may hold: its own path, other requests' paths, and what goes wrong round a window."""

from __future__ import annotations

from collections.abc import Mapping

from replaycheck.schedule.steps import PAD, RequestPlan, Row, Schedule

from .symptoms import OWN

__all__ = ["BEGUN", "DRAFTS", "PADDED", "SKIPPED", "TWICE", "lines_of"]

DRAFTS, TWICE, SKIPPED, PADDED, BEGUN = "drafts", "twice", "skipped", "padded", "begun"
"""The window's drafts after its first token; the row's tokens twice; the row's tokens left out; padding before the row's
tokens; the row's tokens from nothing."""

OTHER = "request "


def lines_of(schedule: Schedule, request: int, row: Row | None) -> Mapping[str, tuple[int, ...]]:
    """Token ids by name; own first, so that of equal matches it wins."""
    plan = schedule.requests[request]
    lines = {OWN: plan.tokens}
    if row is not None:
        lines |= _round_row(plan, row)
    for number, other in enumerate(schedule.requests):
        if number != request and not _begins(plan.tokens, other.tokens):
            lines[f"{OTHER}{number}"] = other.tokens
    return lines


def _begins(mine: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return mine[: len(other)] == other


def _round_row(plan: RequestPlan, row: Row) -> dict[str, tuple[int, ...]]:
    before, run = plan.tokens[: row.a], plan.run_of(row)
    kept = run
    lines = {}
    if row.window is not None:
        kept = run[: plan.windows[row.window].kept]
        lines[DRAFTS] = (*before, *run)
        lines[SKIPPED] = (*before[: -len(kept)], *run) if len(before) > len(kept) else run
    lines[TWICE] = (*before, *kept, *kept)
    if row.a:
        lines[BEGUN] = run
    if row.columns is not None:
        left, right = row.columns.left, row.columns.right
        lines[PADDED] = (*before, *(PAD,) * left, *run, *(PAD,) * right)
    return lines
