"""From calls that should agree to one cell of the table: exact, noise with a number, broken with an example, or can't.

Noise is a difference that the recipe's rounding points predict: two runs that are each within the predicted error of the
truth are at most twice that apart. More is broken, and so is any difference where bits must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite

from replaycheck.schema.probe_table import CellVerdict, ProbeCell, ProbeNumber
from replaycheck_kernels.contract import KdaOutput
from replaycheck_kernels.error_model import Predicted

from .difference import Difference, allowed, differences


class CannotProbe(Exception):
    """The kernel can't do what the property asks about; the text is the reason."""


@dataclass(frozen=True)
class Answer:
    """A cell without its property's name; see :class:`ProbeCell`."""

    verdict: CellVerdict
    sentence: str
    number: float | None = None
    predicted: float | None = None
    example: str = ""
    numbers: tuple[ProbeNumber, ...] = ()

    def cell(self, name: str) -> ProbeCell:
        return ProbeCell(
            property=name,
            verdict=self.verdict,
            sentence=self.sentence,
            number=_finite(self.number),
            predicted=_finite(self.predicted),
            example=self.example,
            numbers=self.numbers,
        )


@dataclass(frozen=True)
class Trial:
    """Two results that should be the same.

    Attributes:
        where: the case in words, e.g. ``lengths 65, cut at 64``.
        predicted: gives the error against the truth that the recipe predicts for either of them; asked where they differ.
    """

    where: str
    found: KdaOutput
    expected: KdaOutput
    predicted: Callable[[], Predicted]


@dataclass(frozen=True)
class _Gap:
    where: str
    difference: Difference
    allowed: float

    @property
    def beyond(self) -> bool:
        return self.difference.relative > self.allowed

    @property
    def example(self) -> str:
        return f"{self.where}: {self.difference.text()}"

    def number(self) -> ProbeNumber:
        return ProbeNumber(
            where=self.where,
            tensor=self.difference.tensor,
            number=_finite(self.difference.relative),
            predicted=_finite(self.allowed),
        )


def agreement(trials: Iterable[Trial], what: str, must: bool = False) -> Answer:
    """Judge trials that come in ascending size, so that the first to fail is the smallest example.

    Args:
        what: what was repeated, e.g. ``the same call twice``.
        must: bits must be the same; any difference is broken.
    """
    gaps, count = [], 0
    for trial in trials:
        count += 1
        for gap in differences(trial.found, trial.expected):
            gaps.append(_Gap(trial.where, gap, 2 * allowed(gap.tensor, trial.predicted())))
            if must or gaps[-1].beyond:
                return _broken(gaps[-1], what, must)
    if not gaps:
        return Answer("exact", f"{what}: same bits in {count} cases")
    worst = max(gaps, key=lambda gap: gap.difference.relative)
    cases = len({gap.where for gap in gaps})
    sentence = f"{what}: other bits in {cases} of {count} cases, by {worst.difference.relative:.2g} at most"
    return Answer("noise", sentence, worst.difference.relative, worst.allowed, gaps[0].example)


def _broken(gap: _Gap, what: str, must: bool) -> Answer:
    size = f"{gap.difference.relative:.2g}"
    reason = "bits must be the same" if must else f"the recipe predicts {gap.allowed:.2g} or less"
    limit = 0.0 if must else gap.allowed
    return Answer("broken", f"{what}: differs by {size}; {reason}", gap.difference.relative, limit, gap.example)


def within(trials: Iterable[Trial], what: str) -> Answer:
    """Judge results against the truth: noise up to the predicted error, broken above it."""
    gaps, count = [], 0
    for trial in trials:
        count += 1
        for gap in differences(trial.found, trial.expected):
            gaps.append(_Gap(trial.where, gap, allowed(gap.tensor, trial.predicted())))
    if not gaps:
        return Answer("exact", f"{what}: none in {count} cases")
    worst = max(gaps, key=lambda gap: (gap.beyond, gap.difference.relative))
    beyond = [gap.where for gap in gaps if gap.beyond]
    size, numbers = worst.difference.relative, tuple(gap.number() for gap in gaps)
    if beyond:
        named = ", ".join(dict.fromkeys(beyond))
        sentence = f"{what}: {size:.2g}, the recipe predicts {worst.allowed:.2g} or less; beyond it: {named}"
        return Answer("broken", sentence, size, worst.allowed, worst.example, numbers)
    sentence = f"{what}: {size:.2g} at most ({worst.where}); the recipe predicts {worst.allowed:.2g} or less"
    return Answer("noise", sentence, size, worst.allowed, numbers=numbers)


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None
