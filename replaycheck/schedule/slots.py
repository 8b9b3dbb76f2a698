"""Slots of a pool: a free list, last in first out, so that stale contents would show; it grows as needed."""

from __future__ import annotations

from .steps import Free


class Slots:
    """Slots on the device and on the host; a slot keeps its side. ``count`` includes the null slot."""

    def __init__(self, first: int = 1) -> None:
        self.count = first
        self._free: dict[bool, list[int]] = {False: [], True: []}
        self._host: set[int] = set()

    def take(self, host: bool = False) -> int:
        """The slot of that side that was freed last, or a new one."""
        if self._free[host]:
            return self._free[host].pop()
        self.count += 1
        if host:
            self._host.add(self.count - 1)
        return self.count - 1

    def give(self, slot: int) -> Free:
        """Give a slot back; the step that says so."""
        self._free[slot in self._host].append(slot)
        return Free(slot)
