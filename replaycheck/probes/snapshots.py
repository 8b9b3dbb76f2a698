"""States taken out of a call: restored at every boundary, compared with the accumulator, and asked for or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import hypot

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaOutput, SnapshotRow, SnapshotSource
from replaycheck_kernels.error_model import Predicted
from replaycheck_kernels.precision import WORST_RMS

from .answer import Answer, CannotProbe, Trial, agreement
from .association import flips
from .pools import decodes_in_place, from_pool, pool_name
from .subject import Case, Subject


def restore(subject: Subject) -> Answer:
    """Restore at every chunk boundary and go on: each snapshot source, the call cut there, and each reduced pool.

    The cell is that of the first source: a kernel's accumulator, else its per-chunk state, else the cut.
    """
    answers = [_restored(subject, source) for source in (*subject.interior, SnapshotSource.FINAL)]
    pooled = agreement(_from_pools(subject), "cut, and restored from a reduced pool")
    return _first_broken([*answers, pooled] if _stores_once(subject) else answers)


def snapshot(subject: Subject) -> Answer:
    """A snapshot at a boundary is the final state of the run that ends there."""
    return _first_broken([_against_prefix(subject, source) for source in _sources(subject)])


def asking(subject: Subject) -> Answer:
    """Does asking for snapshots change outputs or final states?"""
    sources = _sources(subject)

    def trials() -> Iterator[Trial]:
        for case, chunk in _long_cases(subject):
            plain = subject.run(case)
            for source in sources:
                asked = subject.run(case, [SnapshotRow(0, chunk, 0, source)])
                where = f"{_where(case)}, {source} of chunk {chunk} asked for"
                yield Trial(where, asked, plain, subject.prediction(case))

    return agreement(trials(), "asked for a snapshot or not", must=True)


def off_grid(subject: Subject) -> Answer:
    """Cut at tokens that are no chunk boundary, the final state carried on in fp32: other chunks, so noise."""

    def trials() -> Iterator[Trial]:
        chunk = _chunk(subject)
        for decay in subject.several():
            case = subject.case((chunk + 6,), decay)
            whole = subject.run(case)
            for cut in (1, chunk // 2 + 1, chunk - 1, chunk + 1):
                on = _go_on(subject, case, cut, subject.run(case.part((0, 0, cut))).final)
                yield Trial(f"{_where(case)}, cut at {cut}", on, _tail(whole, cut), subject.prediction(case))

    return agreement(trials(), "cut off the grid")


def _first_broken(answers: Sequence[Answer]) -> Answer:
    """One cell for all: a broken one if there is one, else the first; what all of them found is in the sentence."""
    worst = next((answer for answer in answers if answer.verdict == "broken"), answers[0])
    return replace(worst, sentence="; ".join(answer.sentence for answer in answers))


def _sources(subject: Subject) -> list[SnapshotSource]:
    if not subject.interior:
        raise CannotProbe("it has no interior snapshot, only the final state")
    return subject.interior


def _long_cases(subject: Subject) -> Iterator[tuple[Case, int]]:
    """One sequence, ever longer, with each of its boundaries: (case, chunk); in each decay."""
    chunk, last = _chunk(subject), subject.sizes.boundaries - 1
    for count in range(1, last + 1):
        for decay in subject.several():
            case = subject.case((count * chunk + 2,), decay)
            yield from ((case, at) for at in range(1, count + 1) if count == last or at == count)


def _chunk(subject: Subject) -> int:
    return subject.recipe(subject.case((1,)).inputs).chunk


def _restored(subject: Subject, source: SnapshotSource) -> Answer:
    """A shorter call may round differently, which is noise; with a state that isn't the accumulator it is a fault."""

    def trials() -> Iterator[Trial]:
        for case, at in _long_cases(subject):
            cut = at * subject.recipe(case.inputs).chunk
            if source is SnapshotSource.FINAL:
                whole, state = subject.run(case), subject.run(case.part((0, 0, cut))).final
            else:
                whole = subject.run(case, [SnapshotRow(0, at, 0, source)])
                state = whole.snapshots
            on = _go_on(subject, case, cut, state)
            yield Trial(f"{_where(case)}, restored at {cut}", on, _tail(whole, cut), subject.prediction(case))

    what = "call cut" if source is SnapshotSource.FINAL else f"{source}: restored"
    answer = agreement(trials(), f"{what} at every boundary")
    honest = source is not SnapshotSource.ACCUMULATOR or answer.verdict != "noise"
    if honest or _against_prefix(subject, source).verdict == "exact":
        return answer
    return replace(answer, verdict="broken", sentence=f"{answer.sentence}, from a state that isn't the accumulator")


def _stores_once(subject: Subject) -> bool:
    """Packed decode rounds its state after each token of a call, which a call on fp32 states doesn't repeat."""
    reduced = any(dtype is not torch.float32 for dtype in subject.found.can.pool_dtypes)
    return reduced and not decodes_in_place(subject)


def _from_pools(subject: Subject) -> Iterator[Trial]:
    """The rest of a cut sequence in place on a pool, against the same from the pool's values in fp32, cast once."""
    for case, at in _long_cases(subject):
        cut = at * subject.recipe(case.inputs).chunk
        rest = case.part((0, cut, case.inputs.offsets[-1])).begun(subject.run(case.part((0, 0, cut))).final)
        for dtype in (each for each in subject.found.can.pool_dtypes if each is not torch.float32):
            begun, found = from_pool(subject, rest, dtype)
            expected = subject.run(begun)
            cast = replace(expected, final=expected.final.to(dtype).to(expected.final.dtype))
            where = f"{_where(case)}, restored at {cut} from {pool_name(dtype)}"
            yield Trial(where, found, cast, partial(_with_flips, subject, begun, expected.final, dtype))


def _with_flips(subject: Subject, case: Case, accumulator: Tensor, dtype: torch.dtype) -> Predicted:
    """What fp32 association does, to the accumulators and to their casts: a flipped element is a unit of the pool off."""
    predicted = subject.predicted(case)
    return Predicted(hypot(predicted.state, flips(accumulator, case.initial, dtype).relative), predicted.output)


def _against_prefix(subject: Subject, source: SnapshotSource) -> Answer:
    """An accumulator has the same bits; a per-chunk state was rounded once, as the recipe stores it."""

    def trials() -> Iterator[Trial]:
        for case, at in _long_cases(subject):
            recipe = subject.recipe(case.inputs)
            taken, cut = subject.run(case, [SnapshotRow(0, at, 0, source)]).snapshots, at * recipe.chunk
            stop = subject.run(case.part((0, 0, cut)))
            once = partial(Predicted, WORST_RMS[recipe.chunk_state] / 2, 0.0)
            yield Trial(f"{_where(case)}, snapshot at {cut}", replace(stop, final=taken), stop, once)

    what = f"{source} against the final state of the prefix"
    return agreement(trials(), what, must=source is SnapshotSource.ACCUMULATOR)


def _go_on(subject: Subject, case: Case, cut: int, state: Tensor) -> KdaOutput:
    rest = case.part((0, cut, case.inputs.offsets[-1]))
    return subject.run(rest.begun(state))


def _tail(whole: KdaOutput, cut: int) -> KdaOutput:
    return replace(whole, o=whole.o[cut:])


def _where(case: Case) -> str:
    return f"{case.name}, length {case.inputs.offsets[-1]}"
