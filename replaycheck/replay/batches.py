"""Which groups share a part: of many, small ones go together, so that a run of many traces has few files.

The cut depends on the traces, the arms and the vocabulary alone. So every run, resumed run and shard of a suite has the same
parts with the same bytes; a kill loses the parts in flight, and a shard is every n-th part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replaycheck.errors import UsageError

from .groups import Groups

__all__ = ["WHOLE", "Batch", "Shard", "plan_batches"]

OBSERVATIONS = 5_000
"""A part is full once it has so many. One group of the quick preset has 3,000 to 20,000, so each has its own part; 1e7
observations make 2,000 files a table of about 0.3 MB, and a kill loses some seconds of a worker's time."""

SEPARATE = 256
"""Up to so many groups each has a part of its own: files are few anyway, and workers have more to share."""

LOGIT_BYTES = 2**28
"""A worker holds a part's logits until they are compared. With a large vocabulary this closes a part sooner."""


@dataclass(frozen=True)
class Batch:
    """Groups first … last − 1 of a run, which one part holds. name: of the first group. weight: observations."""

    name: str
    first: int
    last: int
    weight: int


@dataclass(frozen=True)
class Shard:
    """Part number % of == index − 1; ``1/1`` is everything."""

    index: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``2/3``. Raises :class:`UsageError`."""
        index, slash, of = text.partition("/")
        if not (slash and index.isdigit() and of.isdigit() and 1 <= int(index) <= int(of)):
            raise UsageError(f"--shard {text!r}: give i/n with 1 <= i <= n, such as 1/3")
        return cls(int(index), int(of))

    @property
    def whole(self) -> bool:
        return self.of == 1

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"


WHOLE = Shard()


def plan_batches(groups: Groups, arms: int, vocabulary: int, shard: Shard = WHOLE) -> tuple[Batch, ...]:
    """The batches of a shard. ``arms``: how many run each group; ``vocabulary``: logits of one position."""
    full = max(1, min(OBSERVATIONS, LOGIT_BYTES // (4 * vocabulary))) if len(groups) > SEPARATE else 1
    cuts = enumerate(_cut(groups, arms, full))
    mine = ((first, last, weight) for number, (first, last, weight) in cuts if number % shard.of == shard.index - 1)
    return tuple(Batch(groups.parse(first).group, first, last, weight) for first, last, weight in mine)


def _cut(groups: Groups, arms: int, full: int) -> Iterator[tuple[int, int, int]]:
    first = weight = 0
    for index, scored in enumerate(groups.scored):
        weight += scored * arms
        if weight >= full:
            yield first, index + 1, weight
            first, weight = index + 1, 0
    if first < len(groups):
        yield first, len(groups), weight
