"""States taken out of a call: restored at every boundary, compared with the accumulator, and asked for or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import Tensor

from replaycheck_kernels.contract import KdaOutput, SnapshotRow, SnapshotSource
from replaycheck_kernels.error_model import Predicted
from replaycheck_kernels.precision import WORST_RMS

from .answer import Answer, CannotProbe, Trial, agreement
from .subject import Case, Subject


def restore(subject: Subject) -> Answer:
    """Restore at every chunk boundary and go on: each snapshot source."""
    return _each_source(subject, _restored)


def snapshot(subject: Subject) -> Answer:
    """A snapshot at a boundary is the final state of the run that ends there."""
    return _each_source(subject, _against_prefix)


def asking(subject: Subject) -> Answer:
    """Does asking for snapshots change outputs or final states?"""
    sources = _sources(subject)

    def trials() -> Iterator[Trial]:
        for case, chunk in _long_cases(subject):
            plain = subject.run(case)
            for source in sources:
                asked = subject.run(case, [SnapshotRow(0, chunk, 0, source)])
                where = f"{_length(case)}, {source} of chunk {chunk} asked for"
                yield Trial(where, asked, plain, subject.predicted(case))

    return agreement(trials(), "asked for a snapshot or not", must=True)


def off_grid(subject: Subject) -> Answer:
    """Cut at tokens that are no chunk boundary, the final state carried on in fp32: other chunks, so noise."""

    def trials() -> Iterator[Trial]:
        chunk = subject.recipe(subject.case((1,)).inputs).chunk
        case = subject.case((chunk + 6,))
        whole = subject.run(case)
        for cut in (1, chunk // 2 + 1, chunk - 1, chunk + 1):
            on = _go_on(subject, case, cut, subject.run(case.part((0, 0, cut))).final)
            yield Trial(f"{_length(case)}, cut at {cut}", on, _tail(whole, cut), subject.predicted(case))

    return agreement(trials(), "cut off the grid")


def _each_source(subject: Subject, check: Callable[[Subject, SnapshotSource], Answer]) -> Answer:
    """One cell for all sources: a broken one if there is one, else the accumulator's; every source is in the sentence."""
    answers = [check(subject, source) for source in _sources(subject)]
    worst = next((answer for answer in answers if answer.verdict == "broken"), answers[0])
    return replace(worst, sentence="; ".join(answer.sentence for answer in answers))


def _sources(subject: Subject) -> list[SnapshotSource]:
    if not subject.interior:
        raise CannotProbe("it has no interior snapshot, only the final state")
    return subject.interior


def _long_cases(subject: Subject) -> Iterator[tuple[Case, int]]:
    """One sequence, ever longer, with each of its boundaries: (case, chunk)."""
    chunk = subject.recipe(subject.case((1,)).inputs).chunk
    for count in range(1, subject.sizes.boundaries):
        case = subject.case((count * chunk + 2,))
        yield from ((case, at) for at in range(1, count + 1) if count == subject.sizes.boundaries - 1 or at == count)


def _restored(subject: Subject, source: SnapshotSource) -> Answer:
    """A shorter call may round differently, which is noise; with a state that isn't the accumulator it is a fault."""

    def trials() -> Iterator[Trial]:
        for case, at in _long_cases(subject):
            whole = subject.run(case, [SnapshotRow(0, at, 0, source)])
            cut = at * subject.recipe(case.inputs).chunk
            on = _go_on(subject, case, cut, whole.snapshots)
            yield Trial(f"{_length(case)}, restored at {cut}", on, _tail(whole, cut), subject.predicted(case))

    answer = agreement(trials(), f"{source}: restored at every boundary")
    honest = source is not SnapshotSource.ACCUMULATOR or answer.verdict != "noise"
    if honest or _against_prefix(subject, source).verdict == "exact":
        return answer
    return replace(answer, verdict="broken", sentence=f"{answer.sentence}, from a state that isn't the accumulator")


def _against_prefix(subject: Subject, source: SnapshotSource) -> Answer:
    """An accumulator has the same bits; a per-chunk state was rounded once, as the recipe stores it."""

    def trials() -> Iterator[Trial]:
        for case, at in _long_cases(subject):
            recipe = subject.recipe(case.inputs)
            taken, cut = subject.run(case, [SnapshotRow(0, at, 0, source)]).snapshots, at * recipe.chunk
            stop = subject.run(case.part((0, 0, cut)))
            once = Predicted(WORST_RMS[recipe.chunk_state] / 2, 0.0)
            yield Trial(f"{_length(case)}, snapshot at {cut}", replace(stop, final=taken), stop, once)

    what = f"{source} against the final state of the prefix"
    return agreement(trials(), what, must=source is SnapshotSource.ACCUMULATOR)


def _go_on(subject: Subject, case: Case, cut: int, state: Tensor) -> KdaOutput:
    rest = case.part((0, cut, case.inputs.offsets[-1]))
    return subject.run(rest.begun(state))


def _tail(whole: KdaOutput, cut: int) -> KdaOutput:
    return replace(whole, o=whole.o[cut:])


def _length(case: Case) -> str:
    return f"length {case.inputs.offsets[-1]}"
