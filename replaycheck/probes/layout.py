"""K and V: unlike widths where the kernel can, and states that are read and returned as [V, K]."""

from __future__ import annotations

from dataclasses import replace

from replaycheck_kernels.contract import KdaOutput

from .answer import Answer, Trial, within
from .difference import relative
from .subject import Case, Subject, words


def layout(subject: Subject) -> Answer:
    """K ≠ V, and with K = V the initial state read and the final state returned as [V, K]."""
    square = min(subject.sizes.key, subject.sizes.value)
    same = subject.resized(key=square, value=square)
    case = same.case(subject.sizes.lengths[:2])
    found = same.run(case)
    if confused := _transposed(same, case, found):
        return Answer("broken", confused, example=f"{words(case.inputs.lengths())}, K = V = {square}")
    answer = within(
        [Trial(f"K = V = {square}", found, same.truth(case), same.prediction(case))], "states are [V, K]; error"
    )
    if answer.verdict == "broken":
        return answer
    return _unlike(subject, answer)


def _transposed(subject: Subject, case: Case, found: KdaOutput) -> str | None:
    """Whether the oracle with a transposed state explains the results better than the oracle does."""
    truth, swapped = subject.truth(case), subject.truth(case.begun(case.initial.mT.contiguous()))
    plain, final = relative(found.final, truth.final), found.final
    read, both = relative(final, swapped.final), relative(final.mT, swapped.final)
    returned = relative(final.mT, truth.final)
    explained = {
        "the final state is returned transposed, [K, V]": returned,
        "the initial state is read transposed, [K, V]": read,
        "states are read and returned transposed, [K, V]": both,
    }
    text, least = min(explained.items(), key=lambda item: item[1])
    return f"{text}: {least:.2g} from that, {plain:.2g} from [V, K]" if least < plain else None


def _unlike(subject: Subject, square: Answer) -> Answer:
    """K ≠ V, both ways round, as far as the widths go."""
    if subject.found.can.equal_widths:
        return replace(square, sentence=f"{square.sentence}; it can't do K ≠ V")
    key, value = subject.sizes.key, subject.sizes.value
    wide, narrow = max(key, value), min(key, value) if key != value else max(key, value) // 2
    trials = []
    for sizes in ((wide, narrow), (narrow, wide)):
        other = subject.resized(key=sizes[0], value=sizes[1])
        case = other.case(subject.sizes.lengths[:2])
        trials.append(
            Trial(f"K = {sizes[0]}, V = {sizes[1]}", other.run(case), other.truth(case), other.prediction(case))
        )
    return within(trials, "states are [V, K], K ≠ V too; error")
