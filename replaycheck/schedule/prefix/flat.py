"""States by the number of their prefix: what caches without a tree share."""

from __future__ import annotations

from replaycheck.schedule.steps import Checkpoint

from .job import Job, PrefixCache


class FlatCache(PrefixCache):
    """One state a prefix; the older one is kept."""

    def __init__(self, capacity: int | None) -> None:
        super().__init__(capacity)
        self._by_prefix: dict[int, Checkpoint] = {}
        self._prefix: dict[str, int] = {}

    def at(self, job: Job, position: int) -> Checkpoint | None:
        """The state of the first ``position`` tokens of the job's path."""
        return self._by_prefix.get(job.numbers[position])

    def insert(self, job: Job, checkpoint: Checkpoint) -> bool:
        number = job.numbers[checkpoint.position]
        if number in self._by_prefix:
            return False
        self._by_prefix[number] = checkpoint
        self._prefix[checkpoint.name] = number
        return True

    def forget(self, checkpoint: Checkpoint) -> None:
        del self._by_prefix[self._prefix.pop(checkpoint.name)]
