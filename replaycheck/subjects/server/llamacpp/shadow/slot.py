"""One slot: its text, the checkpoints behind it, and where the computation of its state was cut.

A checkpoint is made before a batch is run, of the state at the batch's first token. Checkpoints are judged by position
alone, and a rewind leaves one that ends a token behind it, with a token of the old text in it (``docs/findings.md``, 22).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from replaycheck.prefixes import common

from .rules import Rules

__all__ = ["CHECKPOINT", "IN_PLACE", "Checkpoint", "Found", "Slot", "Text"]

Text = tuple[int, ...]


@dataclass(frozen=True)
class Checkpoint:
    """A state. text: that it has read. ends: where each batch ended that built it. request: that made it."""

    text: Text
    ends: tuple[int, ...]
    request: int

    @property
    def tokens(self) -> int:
        return len(self.text)

    @property
    def position(self) -> int:
        """Of its last token, which is what the server compares."""
        return len(self.text) - 1


@dataclass(frozen=True)
class Found:
    """A state to go on from. tokens: that it stands for; read: the text that it has read, which may be another.

    ends: where it was cut. how: it was come by, in a few words.
    """

    tokens: int
    read: Text
    ends: tuple[int, ...]
    how: str


IN_PLACE, CHECKPOINT, MOVED = "in place", "from a checkpoint", "with text moved to other positions"

NOTHING = Found(0, (), (), "nothing")


@dataclass
class Slot:
    """What a slot holds. ends: where each batch ended that built its state; used: when it was last busy."""

    text: Text = ()
    checkpoints: list[Checkpoint] = field(default_factory=list)
    ends: tuple[int, ...] = ()
    used: int = -1

    def clear(self) -> None:
        """No text and no checkpoints."""
        self.text, self.checkpoints, self.ends = (), [], ()

    def put(self, other: Slot) -> None:
        """What another one held."""
        self.text, self.checkpoints, self.ends = other.text, list(other.checkpoints), other.ends

    def rewind(self, rules: Rules, prompt: Text, cached: bool) -> Found:
        """Go back to the longest usable beginning of ``prompt``. Its text isn't compared again, so it may be another."""
        shared, position = self._shared(rules, prompt) if cached else (0, 0)
        found = self._usable(rules, prompt, shared, position) if shared else NOTHING
        place = found.tokens
        self.checkpoints = [each for each in self.checkpoints if each.position <= place]
        if place == len(prompt):
            # At least one token has to be run, or there are no logits.
            place -= 1
        ends = tuple(end for end in found.ends if end <= place)
        self.text, self.ends = prompt[:place], ends
        return replace(found, tokens=place, ends=ends)

    def _shared(self, rules: Rules, prompt: Text) -> tuple[int, int]:
        """Tokens that are there already, moved ones too, and the position at which the recurrent state stands."""
        shared = common(self.text, prompt)
        if not (rules.reuse and rules.shiftable):
            return shared, len(self.text) - 1
        return moved(self.text, prompt, shared, rules.reuse)

    def _usable(self, rules: Rules, prompt: Text, shared: int, position: int) -> Found:
        before = shared if shared < len(prompt) else shared - 1
        if (position if rules.recurrent else 0) < before:
            if common(self.text, prompt) < shared:
                return Found(shared, self.text, self.ends, MOVED)
            return Found(shared, prompt[:shared], self.ends, IN_PLACE)
        for each in reversed(self.checkpoints):
            if each.position <= shared and (each.position < before or each.position == 0):
                place = min(shared, each.tokens)
                return Found(place, each.text[:place], each.ends, CHECKPOINT)
        return NOTHING

    def run(self, rules: Rules, prompt: Text, request: int, users: Sequence[int] = ()) -> None:
        """Run the rest of ``prompt`` in batches. users: positions at which a user's message begins."""
        while len(self.text) < len(prompt):
            start = len(self.text)
            end = self._batch_end(rules, start, len(prompt), users)
            if rules.keeps and start and self._wanted(rules, start, end, len(prompt), users):
                self._keep(rules, request)
            self.text, self.ends = prompt[:end], (*self.ends, end)

    def decode(self, answer: Text) -> None:
        """Tokens that were sampled; the last one is never run."""
        first = len(self.text)
        self.text += answer[:-1]
        self.ends += tuple(range(first + 1, len(self.text) + 1))

    def _batch_end(self, rules: Rules, start: int, length: int, users: Sequence[int]) -> int:
        last = min(length, start + rules.batch)
        if not rules.keeps:
            return last
        ends = [length - offset for offset in rules.offsets]
        ends += [each for each in users if self._far(rules, each) or each == users[-1]]
        return min((end for end in ends if start < end < last), default=last)

    def _far(self, rules: Rules, position: int) -> bool:
        return not self.checkpoints or position > self.checkpoints[-1].tokens + rules.min_step

    def _wanted(self, rules: Rules, start: int, end: int, length: int, users: Sequence[int]) -> bool:
        """Whether a checkpoint is made before the batch ``start`` … ``end``."""
        near = length < end + rules.ubatch
        if not near and start not in users:
            return False
        return near or start == users[-1] or self._far(rules, start)

    def _keep(self, rules: Rules, request: int) -> None:
        """Make one of the state as it is; when there are too many, close ones of earlier requests go, then the oldest."""
        self._thin(rules, request)
        while len(self.checkpoints) >= rules.checkpoints:
            del self.checkpoints[0]
        self.checkpoints = [each for each in self.checkpoints if each.tokens != len(self.text)]
        self.checkpoints.append(Checkpoint(self.text, self.ends, request))

    def _thin(self, rules: Rules, request: int) -> None:
        last, at = -1, 0
        while at < len(self.checkpoints) and len(self.checkpoints) + 1 >= rules.checkpoints:
            each = self.checkpoints[at]
            if each.request != request and last >= 0 and each.tokens <= last + rules.min_step:
                del self.checkpoints[at]
                continue
            last, at = each.tokens, at + 1


def moved(text: Text, prompt: Text, shared: int, least: int) -> tuple[int, int]:
    """What ``--cache-reuse`` makes of ``text``: pieces of ``least`` tokens or more that come later in the prompt are moved.

    Returns:
        tokens of the prompt that are there then, and the position of the last token that the recurrent state has read.
    """
    tokens, position = list(text), len(text) - 1
    at, to = shared, shared
    while at < len(tokens) and to < len(prompt):
        same = common(tuple(tokens[at:]), prompt[to:])
        if same < least:
            at += 1
            continue
        if at <= position < at + same:
            position += to - at
        tokens[to : to + same] = tokens[at : at + same]
        at, to = at + same, to + same
    return to, position
