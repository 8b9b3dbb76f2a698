"""What an import left out, what it had to change, and how often; one line a reason in the summary.

Dropped: in the source, not in the trace. Noted: in the trace, but not just as the source has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Log"]


@dataclass
class Log:
    """Counters of one import."""

    dropped: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    #: turns whose tokens were compared with those that a tokenizer gives for the rendered text, and those that differ
    checked: int = 0
    drifted: int = 0

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.dropped[reason] += count

    def note(self, reason: str, count: int = 1) -> None:
        if count:
            self.noted[reason] += count

    def lines(self) -> Iterator[str]:
        """The summary, most frequent first."""
        for name, counts in (("dropped", self.dropped), ("noted", self.noted)):
            for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
                yield f"{name} {count}: {reason}"
        yield f"re-tokenised {self.checked} turns, {self.drifted} drift"

    def record(self) -> dict[str, object]:
        """The same for ``--json``."""
        drift = {"turns": self.checked, "drifted": self.drifted}
        return {"dropped": dict(self.dropped), "noted": dict(self.noted), "drift": drift}
