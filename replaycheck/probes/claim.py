"""Is the recipe that a kernel claims the one that it computes? Against the emulator, intermediate by intermediate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from replaycheck.schema.probe_table import ProbeNumber
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.claims import Compared, Departure, departures, first_departure, fits

from .answer import Answer, CannotProbe
from .subject import Case, Decays, Subject

_TRIED = 3
"""Cases with which open choices are settled: tf32 and merges are in every chunk, whatever the decay."""


def claim(subject: Subject) -> Answer:
    """What the kernel exposes against the emulator under its recipe, each open choice tried; the best fit is judged."""
    if subject.found.claim(subject.case((1,)).inputs) is None and subject.found.kernel.recipes is not None:
        raise CannotProbe("it claims no recipe")
    if subject.found.kernel.forward is CHUNK_EMULATOR.forward:
        return Answer("exact", "it is the emulator")
    cases = list(_cases(subject))
    compared = [_compared(subject, case) for case in cases]
    tried = fits(compared[:_TRIED], subject.form)
    best = min(tried, key=lambda words: tried[words])
    return _judged(cases, [departures(each, best) for each in compared], tried)


def _cases(subject: Subject) -> Iterator[Case]:
    """The usual pack in several decays, and a crowd, where a launch may choose another kernel."""
    for decay in _regimes(subject):
        yield subject.case(subject.sizes.lengths, decay)
    crowd = max(subject.sizes.batches) // 2 + 1  # on a GPU 33 sequences of two chunks and four heads: 264 blocks
    if subject.found.choose is not None and crowd > len(subject.sizes.lengths):
        yield subject.case((subject.sizes.each,) * crowd)


def _regimes(subject: Subject) -> list[Decays]:
    """Also strong ones, where exponents are clamped, and each form of the decay, as diagonal blocks have their own."""
    found, several = list(subject.decays()), subject.several()
    names = {decay[0].name for decay in several}
    for bounded in (False, True):
        if not any((decay[1] is not None) is bounded for decay in several):
            names |= {decay[0].name for decay in [each for each in found if (each[1] is not None) is bounded][:1]}
    if subject.device == "cuda":
        names.add("strong")
    return [decay for decay in found if decay[0].name in names]


def _compared(subject: Subject, case: Case) -> Compared:
    """Intermediates where there are some; outputs and states come last, or alone. The emulator runs on the CPU."""
    recipe, exposed = subject.recipe(case.inputs), dict[str, Tensor]()
    if subject.found.expose is None:
        output = subject.run(case)
    else:
        with subject.found.expose() as exposed:
            output = subject.run(case)
    found = {name: x.cpu() for name, x in {**exposed, "o": output.o, "final": output.final}.items()}
    return Compared(found, case.inputs.to("cpu"), case.initial.cpu(), recipe, subject.form)


def _judged(cases: Sequence[Case], found: Sequence[Sequence[Departure]], tried: Mapping[str, float]) -> Answer:
    numbers = tuple(
        number for case, each in zip(cases, found, strict=True) for one in each for number in _numbers(case, one)
    )
    fit = ", ".join(f"{words} {share:.2g}" for words, share in sorted(tried.items(), key=lambda item: item[1]))
    choices = [f"share of elements that differ: {fit}"] if len(tried) > 1 else []
    for case, each in zip(cases, found, strict=True):
        if (departure := first_departure(each)) is not None:
            sentence = "; ".join([f"departs at {departure.text()} ({case.name})", *choices])
            example = f"{case.name}: {_row(each)}"
            return Answer("broken", sentence, departure.found, departure.allowed, example, numbers)
    names = ", ".join(dict.fromkeys(one.name for one in found[0]))
    apart = [one for each in found for one in each if one.found or one.moved]
    if not apart:
        return Answer("exact", "; ".join([f"same as the emulator at {names}", *choices]), numbers=numbers)
    worst = max(apart, key=lambda one: (not one.wide, one.found))
    sentence = "; ".join([f"as the emulator at {names}; most at {worst.text()}", *choices])
    return Answer("noise", sentence, worst.found, worst.allowed, numbers=numbers)


def _numbers(case: Case, each: Departure) -> Iterator[ProbeNumber]:
    where = f"{case.name}, {len(case.inputs.lengths())} sequences"
    finite = each.found if each.found < float("inf") else None
    kind = "relative difference" if each.wide else "share beyond 1 ulp"
    yield ProbeNumber(where=f"{where}: {kind}", tensor=each.name, number=finite, predicted=each.allowed)
    if not each.wide:
        moved = f"{where}: share that differs at all"
        yield ProbeNumber(where=moved, tensor=each.name, number=each.moved, predicted=each.predicted)


def _row(found: Sequence[Departure]) -> str:
    """All intermediates of a case, so that a reader sees where it begins."""
    return ", ".join(f"{each.name} {each.found:.2g} of {each.allowed:.2g}" for each in found)
