"""The confusion matrix of the classifier: every planted fault in its smallest cell, what was named and what was planted.

Who plants faults gives them as data, so nothing here knows a fault; ``python -m replaycheck.selftest.confusion`` feeds the
table of those that ship.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import process_time
from typing import Literal

from replaycheck.errors import ReplayCheckError

from .again import Case
from .codes import broader
from .examine import examine
from .explain import UNKNOWN, Explanation, explain

__all__ = ["Answer", "Counts", "Outcome", "Planted", "classify", "counts", "table"]

Answer = Literal["right", "unknown", "wrong", "confidently wrong", "nothing seen", "not run"]


@dataclass(frozen=True)
class Planted:
    """A fault in a case. code: what it should be called. silent: no comparison of arms can show it."""

    fault: str
    code: str
    case: Case
    silent: bool = False


@dataclass(frozen=True)
class Outcome:
    """What was said of a planted fault. why: of one that couldn't be run."""

    planted: Planted
    answer: Answer
    explanation: Explanation | None
    seconds: float
    why: str = ""


@dataclass(frozen=True)
class Counts:
    """shown: faults that changed anything. The shares are of these."""

    shown: int
    right: int
    unknown: int
    wrong: int
    confidently_wrong: int

    @property
    def right_share(self) -> float:
        return self.right / self.shown if self.shown else 0.0

    @property
    def confidently_wrong_share(self) -> float:
        return self.confidently_wrong / self.shown if self.shown else 0.0


def classify(planted: Iterable[Planted]) -> Iterator[Outcome]:
    """Examine and explain each, one at a time."""
    for each in planted:
        begin = process_time()
        try:
            said = explain(examine(each.case))
        except ReplayCheckError as error:
            yield Outcome(each, "not run", None, process_time() - begin, str(error))
            continue
        yield Outcome(each, _answer(each.code, said), said, process_time() - begin)


def _answer(code: str, said: Explanation | None) -> Answer:
    """A more special code than the planted one is right, and so is the general one of a special fault."""
    if said is None:
        return "nothing seen"
    if said.code == UNKNOWN:
        return "unknown"
    if code in broader(said.code) or said.code in broader(code):
        return "right"
    return "confidently wrong" if said.confidence == "certain" else "wrong"


def counts(answers: Iterable[str]) -> Counts:
    """Of the faults that changed anything."""
    found = Counter(answers)
    shown = {answer: found[answer] for answer in ("right", "unknown", "wrong", "confidently wrong")}
    return Counts(sum(shown.values()), *shown.values())


def table(outcomes: Iterable[Outcome]) -> str:
    """One line a fault, then the counts."""
    found = list(outcomes)
    lines = [_line(outcome) for outcome in found]
    c = counts(outcome.answer for outcome in found)
    lines.append(
        f"{c.shown} faults shown: {c.right} right ({c.right_share:.0%}), {c.unknown} unknown, {c.wrong} wrong and not sure, "
        f"{c.confidently_wrong} confidently wrong ({c.confidently_wrong_share:.0%})"
    )
    return "\n".join(lines) + "\n"


def _line(outcome: Outcome) -> str:
    said = outcome.explanation
    named = f"{said.code} {said.confidence}" if said else outcome.why[:80]
    return f"{outcome.answer:<18} {outcome.planted.fault:<26} {outcome.planted.code}  {named}"
