"""What is computed beside a sequence, after it, or a second time must not change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, permutations

import torch

from replaycheck_kernels.contract import KdaOutput, concatenate

from .answer import Answer, Trial, agreement
from .difference import differences
from .subject import Case, Decays, Subject, words


def repeat(subject: Subject) -> Answer:
    """The same call twice."""

    def trials() -> Iterator[Trial]:
        for decay in subject.several():
            case = subject.case(subject.sizes.lengths, decay)
            where = f"{case.name}, {words(subject.sizes.lengths)}"
            yield Trial(where, subject.run(case), subject.run(case), subject.prediction(case))

    return agreement(trials(), "the same call twice", must=True)


def alone(subject: Subject) -> Answer:
    """A pack against each of its sequences alone; pairs come first, as smaller examples.

    Every order of the whole pack in the first regime; in the others the order as it is, backward and turned by one.
    """

    def trials() -> Iterator[Trial]:
        for number, decay in enumerate(subject.several()):
            case = subject.case(subject.sizes.lengths, decay)
            count = len(subject.sizes.lengths)
            single = [subject.run(case.alone(r)) for r in range(count)]
            backward = list(reversed(range(count)))
            few = [
                *map(list, pairwise(range(count))),
                backward[:2],
                list(range(count)),
                backward,
                [*range(1, count), 0],
            ]
            every = map(list, permutations(range(count))) if not number else ()
            distinct = [list(order) for order in dict.fromkeys(map(tuple, [*few, *every]))]
            yield from _packed(subject, case, single, distinct)

    return agreement(trials(), "packed against alone, in every order")


def _packed(subject: Subject, case: Case, single: Sequence[KdaOutput], orders: Sequence[list[int]]) -> Iterator[Trial]:
    """The pack at once, and sequence by sequence where it differs, so that the example names one."""
    lengths, predicted = subject.sizes.lengths, subject.prediction(case)
    for order in orders:
        pack = case.part(*((r, 0, lengths[r]) for r in order))
        got, each = subject.run(pack), concatenate([single[r] for r in order])
        where = f"{case.name}, {words([lengths[r] for r in order])}"
        if not differences(got, each):
            yield Trial(where, got, each, predicted)
            continue
        for place, r in enumerate(order):
            yield Trial(
                f"{where}, sequence {place}", taken(got, pack, place), single[r], subject.prediction(case.alone(r))
            )


def batch(subject: Subject) -> Answer:
    """The first and the last of a growing batch against the same sequences alone."""

    def trials() -> Iterator[Trial]:
        for decay in subject.several():
            yield from _batches(subject, decay)

    return agreement(trials(), f"batches of {', '.join(map(str, sorted(subject.sizes.batches)))}")


def _batches(subject: Subject, decay: Decays) -> Iterator[Trial]:
    largest, each = max(subject.sizes.batches), subject.sizes.each
    case = subject.case((each,) * largest, decay)
    first, predicted = subject.run(case.alone(0)), subject.prediction(case.alone(0))
    for size in sorted(subject.sizes.batches):
        pack = case.part(*((r, 0, each) for r in range(size)))
        got, where = subject.run(pack), f"{case.name}, batch {size} of {words((each,))}"
        yield Trial(f"{where}, sequence 0", taken(got, pack, 0), first, predicted)
        last = subject.run(case.alone(size - 1))
        yield Trial(f"{where}, sequence {size - 1}", taken(got, pack, size - 1), last, predicted)


def future(subject: Subject) -> Answer:
    """The same prefix with more and more tokens after it: do they change the prefix's outputs?"""

    def trials() -> Iterator[Trial]:
        for decay in _both_diagonals(subject):
            yield from _prefixes(subject, subject.case((max(subject.sizes.lengths),), decay))

    return agreement(trials(), "a prefix with tokens after it")


def _both_diagonals(subject: Subject) -> list[Decays]:
    """Also a bounded decay, where diagonal blocks are computed in another way."""
    bounded = [decay for decay in subject.decays() if decay[1] is not None]
    several = subject.several()
    return several + [decay for decay in bounded if decay[0].name not in {other.name for other, _ in several}]


def _prefixes(subject: Subject, case: Case) -> Iterator[Trial]:
    total = case.inputs.offsets[-1]
    for prefix in subject.sizes.prefixes:
        short = subject.run(case.part((0, 0, prefix)))
        for more in (1, 4, total - prefix):
            long = subject.run(case.part((0, 0, min(total, prefix + more))))
            where = f"{case.name}, first {prefix} of length {min(total, prefix + more)}"
            # The states differ, as they should.
            yield Trial(where, replace(long, o=long.o[:prefix], final=short.final), short, subject.prediction(case))


def poisoned(case: Case, sequence: int) -> Case:
    """NaN in the tokens and the initial state of one sequence."""
    x, at = case.inputs, case.slice(sequence)
    tokens = {name: getattr(x, name).clone() for name in ("q", "k", "v", "a", "b")}
    for tensor in tokens.values():
        tensor[at] = torch.nan
    initial = case.initial.clone()
    initial[sequence] = torch.nan
    return replace(case, inputs=replace(x, **tokens), initial=initial)


def taken(output: KdaOutput, pack: Case, sequence: int) -> KdaOutput:
    """One sequence's part of a pack's results."""
    return KdaOutput(output.o[pack.slice(sequence)], output.final[sequence : sequence + 1], output.snapshots[:0])
