"""Rows that every compiler emits in the same way: extends, decode steps, and what an extend snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.schema.arm import CHUNK, Arm, Kernel

from .operations import Span
from .prefix.job import Piece
from .steps import Checkpoint, Part, Row, RowKind, Snapshot, Source


@dataclass(frozen=True)
class Track:
    """One line of computation of a request. With unlike kernels for history and tail there are two: the scored one, and
    one that builds the checkpoints of later turns with the history's kernel."""

    kernel: Kernel
    part: Part
    scored: bool
    stores: bool


def tracks(arm: Arm) -> tuple[Track, ...]:
    """The tracks of each request of an arm."""
    if arm.history is arm.tail:
        return (Track(arm.tail, Part.TAIL, scored=True, stores=True),)
    return (
        Track(arm.tail, Part.TAIL, scored=True, stores=False),
        Track(arm.history, Part.HISTORY, scored=False, stores=True),
    )


def runs(track: Track, needed: int, a: int) -> bool:
    """Whether a track computes the tokens from ``a`` on: it scores them, or a state that is stored depends on them.

    Args:
        needed: tokens up to which stored states depend on the request.
    """
    return track.scored or needed > a


def row(
    span: Span,
    arm: Arm,
    track: Track,
    source: int,
    destination: int,
    snapshots: tuple[Snapshot, ...] = (),
    restored: str | None = None,
) -> Row:
    """A span on a track: part of a prompt in the track's kernel, or of an answer in the answer's."""
    decoding = span.piece.decoding
    return Row(
        request=span.request,
        a=span.piece.a,
        b=span.piece.b,
        kind=RowKind.DECODE if decoding and arm.answer is Kernel.RECURRENT else RowKind.PREFILL,
        part=Part.ANSWER if decoding else track.part,
        kernel=arm.answer if decoding else track.kernel,
        scored=track.scored,
        source=source,
        destination=destination,
        snapshots=snapshots,
        restored=restored,
        score_from=span.score_from if track.scored else None,
        shared=span.shared if track.scored else (),
    )


def snapshot(piece: Piece, checkpoint: Checkpoint, destination: int) -> Snapshot:
    """The snapshot of a checkpoint inside a piece, or at its end."""
    tokens = checkpoint.position - piece.a
    if checkpoint.position < piece.b and piece.window is not None:
        return Snapshot(chunk=tokens, source=Source.POSITION, destination=destination, conv_end=tokens)
    source = Source.ACCUMULATOR if checkpoint.written.inside else Source.FINAL
    return Snapshot(chunk=tokens // CHUNK, source=source, destination=destination, conv_end=tokens)
