"""The host cache (``--cache-ram``): whole slots, copied out before they are lost and taken back when they fit better.

Its limit in MiB isn't modelled: what a state takes is known to the server alone. A server with a small one keeps less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replaycheck.prefixes import common

from .rules import Rules
from .slot import Slot, Text

__all__ = ["HostCache"]

WORTH = np.float32(0.25)
"""A stored text of which less would be kept stays where it is."""


class HostCache:
    """Oldest first."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._states: list[Slot] = []

    def save(self, slot: Slot) -> None:
        """A copy, unless it is there; texts that this one begins with are dropped."""
        if not slot.text or any(common(each.text, slot.text) == len(slot.text) for each in self._states):
            return
        self._states = [each for each in self._states if common(each.text, slot.text) < len(each.text)]
        self._states.append(replace(slot, checkpoints=list(slot.checkpoints)))

    def load(self, slot: Slot, prompt: Text) -> None:
        """Put the best text into ``slot``, if it keeps more of itself and serves more of the prompt than what is there."""
        shared = common(slot.text, prompt)
        keep = _share(shared, len(slot.text)) if slot.text else np.float32(-1)
        serve = _share(shared, len(prompt))
        best: Slot | None = None
        for each in self._states:
            shared = common(each.text, prompt)
            keeps, serves = _share(shared, len(each.text)), _share(shared, len(prompt))
            if keeps >= WORTH and keep < keeps and serve < serves:
                keep, serve, best = keeps, serves, each
        if best is not None:
            slot.put(best)
            self._states = [each for each in self._states if each is not best]

    def trim(self) -> None:
        """Without a limit in MiB the tokens of all slots are one; the newest text always stays."""
        while self._rules.ram < 0 and len(self._states) > 1 and self._tokens() > self._rules.context:
            del self._states[0]

    def _tokens(self) -> int:
        return sum(len(each.text) for each in self._states)


def _share(part: int, whole: int) -> np.float32:
    """As the server computes it: in single precision, which decides ties."""
    return np.float32(part) / np.float32(whole)
