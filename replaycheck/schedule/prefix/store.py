"""Stored states by recency. The least recently used one that nobody holds is evicted when there is no room.

A holder is a request that still reads the state: one that restored it, or that runs on from its slot.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from replaycheck.schedule.steps import Checkpoint


class StateStore:
    """At most ``capacity`` states; None: no limit."""

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self._states: OrderedDict[str, Checkpoint] = OrderedDict()
        self._holds: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._states

    def __len__(self) -> int:
        return len(self._states)

    def touch(self, name: str) -> None:
        """Make it the most recently used."""
        self._states.move_to_end(name)

    def hold(self, name: str) -> None:
        """Protect it from eviction until as many releases as holds came."""
        self._holds[name] += 1

    def release(self, name: str) -> None:
        self._holds[name] -= 1

    def held(self, name: str) -> bool:
        return self._holds[name] > 0

    def add(self, checkpoint: Checkpoint) -> None:
        self._states[checkpoint.name] = checkpoint

    def remove(self, name: str) -> Checkpoint:
        return self._states.pop(name)

    @property
    def full(self) -> bool:
        return self.capacity is not None and len(self._states) >= self.capacity

    def victim(self) -> Checkpoint | None:
        """The state to evict, or None if all are held."""
        return next((state for name, state in self._states.items() if not self.held(name)), None)
