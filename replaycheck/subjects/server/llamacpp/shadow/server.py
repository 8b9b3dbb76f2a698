"""The whole server: which slot answers, what is saved and loaded before, and what each request leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from replaycheck.prefixes import common

from .host import HostCache
from .rules import Rules
from .slot import Slot, Text

__all__ = ["Shadow", "Taken"]

HALF = np.float32(0.5)
"""A slot that would keep less of its text is saved before."""


@dataclass(frozen=True)
class Taken:
    """What a request found.

    Attributes:
        slot: that answers. hit: tokens from the cache; how they were come by, in a few words.
        read: what the restored state has read, where that isn't the prompt's beginning.
        cuts: where batches ended that built the state behind the whole prompt, but for the last one.
    """

    slot: int
    hit: int
    how: str
    read: Text | None
    cuts: tuple[int, ...]


class Shadow:
    """Requests are told one after the other, in the order in which the server takes them."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._slots = [Slot() for _ in range(rules.slots)]
        self._host = HostCache(rules)
        self._files: dict[str, Slot] = {}
        self._requests = 0

    def ask(
        self, prompt: Text, answer: Text, *, cached: bool = True, slot: int | None = None, users: Sequence[int] = ()
    ) -> Taken:
        """A request and its answer. slot: that it names. users: where users' messages begin (the chat route tells)."""
        self._requests += 1
        number = self._choose(prompt, slot)
        mine = self._slots[number]
        self._save_idle(mine)
        found = mine.rewind(self.rules, prompt, cached)
        hit = found.tokens
        mine.run(self.rules, prompt, self._requests, users)
        other = None if found.read == prompt[:hit] else found.read
        taken = Taken(number, hit, found.how, other, mine.ends[:-1])
        mine.decode(answer)
        mine.used = self._requests
        return taken

    def erase(self, slot: int) -> None:
        self._slots[slot].clear()

    def save(self, slot: int, file: str) -> None:
        self._files[file] = replace(self._slots[slot], checkpoints=list(self._slots[slot].checkpoints))

    def restore(self, slot: int, file: str) -> None:
        self._slots[slot].put(self._files[file])

    def _choose(self, prompt: Text, asked: int | None) -> int:
        """The slot; its text may be saved, and one from the host cache put in its place."""
        found = None if asked is None else asked % len(self._slots)
        best = np.float32(0)
        for number, slot in enumerate(self._slots):
            if self.rules.similarity and slot.text and asked in (None, number):
                like = np.float32(common(slot.text, prompt)) / np.float32(len(prompt))
                if like > best and like > np.float32(self.rules.similarity):
                    found, best = number, like
        if found is None:
            found = min(reversed(range(len(self._slots))), key=lambda number: self._slots[number].used)
            self._swap(self._slots[found], prompt)
        elif self.rules.similarity and self._loses(self._slots[found], best, prompt):
            self._swap(self._slots[found], prompt)
        return found

    def _loses(self, slot: Slot, like: np.float32, prompt: Text) -> bool:
        return bool(slot.text) and bool(like * np.float32(len(prompt)) / np.float32(len(slot.text)) < HALF)

    def _swap(self, slot: Slot, prompt: Text) -> None:
        if self.rules.host:
            self._host.save(slot)
            self._host.load(slot, prompt)
            self._host.trim()

    def _save_idle(self, busy: Slot) -> None:
        if not (self.rules.host and self.rules.idle):
            return
        for slot in self._slots:
            if slot is busy:
                continue
            self._host.save(slot)
            self._host.trim()
            if self.rules.unified:
                slot.clear()
