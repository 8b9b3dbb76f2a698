"""The rows of an arm that decodes in windows, and the passes of one that decodes the same answer token by token.

A warm arm verifies: it runs a window, wrong drafts too, and keeps the accepted part. The split arms are its reference and
run nothing that is thrown away: the kept tokens in one call, live inside it, with one store at the end of the window.
RecoverSSM's reference records and rebuilds these, since a rebuilt state has other bits than a sequential one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replaycheck.schedule.operations import Run, Span
from replaycheck.schedule.steps import Kept, Row, RowKind, Snapshot, Source
from replaycheck.schema.arm import Arm, Rollback

from .windows import Window


def passes(run: Run, arm: Arm) -> Iterator[Run]:
    """The forward passes of a run: itself, or without a rollback method the kept tokens of its windows one by one.

    So all arms of a group see requests in the same order, and stored states at the same places.
    """
    longest = max(span.piece.b - span.piece.a for span in run.spans if span.piece.window) if _windowed(run) else 1
    if arm.rollback is not None or longest == 1:
        yield run
        return
    for step in range(longest):
        yield Run(tuple(part for span in run.spans for part in _token(span, step)))


def _windowed(run: Run) -> bool:
    return any(span.piece.window for span in run.spans)


def _token(span: Span, step: int) -> Iterator[Span]:
    """Token ``step`` of a span that is a window, with what the window leaves behind if it is the last; others go first."""
    piece = span.piece
    if piece.window is None:
        yield from (span,) if step == 0 else ()
    elif piece.a + step < piece.b:
        at = piece.a + step
        takes = tuple(take for take in span.takes if take.checkpoint.position == at + 1)
        yield replace(span, piece=replace(piece, a=at, b=at + 1, window=None), takes=takes)


def verifies(span: Span, arm: Arm) -> bool:
    """Whether the span is a window that the arm rolls back."""
    return arm.rollback is not None and span.piece.window is not None


def verify_row(row: Row, number: int, window: Window, states: tuple[Snapshot, ...]) -> Row:
    """A window as a warm arm runs it.

    Args:
        row: of the kept tokens. number: of the window among those of the request. states: where the states after the other
            positions go, for a method that stores them.
    """
    return replace(
        row,
        kind=RowKind.VERIFY,
        b=row.a + window.length,
        snapshots=(*states, *row.snapshots),
        window=number,
        accepted=window.accepted,
        kept=Kept.all(window.kept),
    )


def reference_row(row: Row, arm: Arm, number: int, window: Window) -> Row:
    """The kept tokens of a window, for a split arm. A state that is stored inside needs the method's own call, too."""
    inside = any(snap.source is Source.POSITION for snap in row.snapshots)
    if arm.rollback is not Rollback.RECOVER and not inside:
        return row
    return replace(row, kind=RowKind.VERIFY, window=number, accepted=window.accepted, kept=Kept.all(window.kept))


def positions(window: Window, slots: list[int]) -> tuple[Snapshot, ...]:
    """Store the state after each token of a window but the last kept one, the row's own result; slots by position."""
    return tuple(
        Snapshot(chunk=tokens, source=Source.POSITION, destination=slots[tokens - 1], conv_end=tokens)
        for tokens in range(1, window.length + 1)
        if tokens != window.kept
    )
