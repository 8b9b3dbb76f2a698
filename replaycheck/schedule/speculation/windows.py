"""The speculation windows of one answer: drafts, wrong ones too, and accepted counts, from the events of a trace.

Tokens of an answer count from 0. A window at offset o runs answer[o] and then its drafts, which guess answer[o + 1],
answer[o + 2], …; with n drafts accepted, 1 + n tokens are kept and the next window starts at o + 1 + n. The answer's last
token is never an input. Where no event starts, a step has no drafts: a window of one token, in the same layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Speculation


@dataclass(frozen=True)
class Window:
    """``drafts`` as run, right or wrong; the first ``accepted`` of them are tokens of the answer."""

    offset: int
    drafts: tuple[int, ...] = ()
    accepted: int = 0

    @property
    def length(self) -> int:
        """Tokens that the verify runs."""
        return 1 + len(self.drafts)

    @property
    def kept(self) -> int:
        """Tokens whose effect stays: the first one and the accepted drafts."""
        return 1 + self.accepted


def windows_of(answer: Sequence[int], events: Iterable[Speculation], where: str) -> tuple[Window, ...]:
    """Windows that cover the inputs of ``answer`` (all its tokens but the last) without gap or overlap.

    Args:
        answer: the answer's tokens. events: those of its turn, in order. where: names the turn in errors.

    Raises:
        UsageError: windows overlap or run past the answer, or a count disagrees with the drafts.
    """
    found: list[Window] = []
    at, last = 0, len(answer) - 1
    for event in events:
        window = Window(event.offset, event.drafts, event.accepted)
        if window.offset < at:
            raise UsageError(f"{where}: window at token {window.offset} overlaps the one before, which ends at {at}")
        _check(answer, window, where)
        found += [Window(offset) for offset in range(at, window.offset)]
        found.append(window)
        at = window.offset + window.kept
    return (*found, *(Window(offset) for offset in range(at, last)))


def _check(answer: Sequence[int], window: Window, where: str) -> None:
    """The kept tokens are inputs of the answer, and the count is what greedy acceptance gives."""
    name = f"{where}: window at token {window.offset}"
    if window.accepted > len(window.drafts):
        raise UsageError(f"{name} accepts {window.accepted} of {len(window.drafts)} drafts")
    if window.offset + window.kept > len(answer) - 1:
        raise UsageError(
            f"{name} keeps {window.kept} tokens, but only {len(answer) - 1} of the answer's {len(answer)} are inputs"
        )
    right = answer[window.offset + 1 :]
    matching = next((i for i, (a, b) in enumerate(zip(window.drafts, right, strict=False)) if a != b), None)
    if matching is None:
        matching = min(len(window.drafts), len(right))
    # The answer's last token isn't kept as an input, so a right draft of it may stand unaccepted.
    if window.accepted != min(matching, len(answer) - 2 - window.offset):
        raise UsageError(
            f"{name} says that {window.accepted} drafts were accepted, but {matching} of them are the answer's tokens"
        )
