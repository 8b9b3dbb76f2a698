"""Rows that every compiler emits in the same way: extends, decode steps, and what an extend snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replaycheck.schema.arm import CHUNK, Arm, Kernel

from .steps import Checkpoint, Part, RequestPlan, Row, RowKind, Snapshot, Source


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


def extend(
    plan: RequestPlan, index: int, track: Track, source: int, destination: int, snapshots: tuple[Snapshot, ...] = ()
) -> Row:
    """The extend of the prompt from the restored state to the prompt's end."""
    return Row(
        request=index,
        a=plan.start,
        b=plan.prompt,
        kind=RowKind.PREFILL,
        part=track.part,
        kernel=track.kernel,
        scored=track.scored,
        source=source,
        destination=destination,
        snapshots=snapshots,
        restored=plan.restore.name if plan.restore else None,
    )


def answer_rows(plan: RequestPlan, index: int, arm: Arm, track: Track, slot: int) -> Iterator[Row]:
    """The answer's inputs, tokens prompt … end − 2: one row a token, or one extend if the answer's kernel is chunk."""
    step = 1 if arm.answer is Kernel.RECURRENT else max(1, plan.computed_end - plan.prompt)
    for a in range(plan.prompt, plan.computed_end, step):
        yield Row(
            request=index,
            a=a,
            b=a + step,
            kind=RowKind.DECODE if arm.answer is Kernel.RECURRENT else RowKind.PREFILL,
            part=Part.ANSWER,
            kernel=arm.answer,
            scored=track.scored,
            source=slot,
            destination=slot,
        )


def needs_answer(plan: RequestPlan, track: Track) -> bool:
    """A track runs the answer if it scores it or stores a state after it."""
    return track.scored or any(c.position > plan.prompt for c in plan.creates)


def snapshot(plan: RequestPlan, checkpoint: Checkpoint, destination: int) -> Snapshot:
    """The snapshot of a checkpoint inside the extend, or at its end."""
    tokens = checkpoint.position - plan.start
    source = Source.ACCUMULATOR if checkpoint.written.inside else Source.FINAL
    return Snapshot(chunk=tokens // CHUNK, source=source, destination=destination, conv_end=tokens)
