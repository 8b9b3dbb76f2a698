"""What one model's runs showed, as a line of the table, and whether it is as it must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["HEAD", "Row"]

HEAD = (
    "model",
    "dtype",
    "block",
    "hits",
    "cold, warm",
    "split, warm",
    "beside others",
    "noise",
    "wiped",
    "wiped beside",
    "CPU s",
    "",
)
"""block: tokens of a cache block. cold, warm and so on: positions that differ of those compared, and the largest difference
in nat. noise: the largest that cold requests show beside others. wiped: the exit code of a run with wiped states, and its
largest difference."""


@dataclass(frozen=True)
class Row:
    """runs: of each run the exit code and ``result.json``; None: it has none. why: why it wasn't run; "" if it was."""

    model: str
    dtype: str
    runs: Mapping[str, Any]
    seconds: float
    why: str = ""

    @property
    def wrong(self) -> tuple[str, ...]:
        """What isn't as it must be."""
        return (f"not run: {self.why}",) if self.why else tuple(self._wrong())

    def _wrong(self) -> Iterator[str]:
        codes = {name: run["code"] for name, run in self.runs.items()}
        if codes != {"clean": 0, "wiped": 1, "wiped beside others": 1}:
            yield f"exit codes {codes}"
        warm = self._warm("clean")
        if not 0 < warm["expected_hits"] == warm["proven_hits"]:
            yield f"{warm['proven_hits']} of {warm['expected_hits']} hits"
        if self._differ("clean", "state"):
            yield "split and warm differ"
        if not self._differ("wiped", "state"):
            yield "wiped states don't show"
        others = [effect for effect in ("state", "total") if self._differ("wiped beside others", effect)]
        if others or not self._differ("wiped beside others", "together"):
            yield "states wiped beside others don't show there alone"

    def words(self) -> tuple[str, ...]:
        """The cells of the line."""
        if self.why:
            return (self.model, self.dtype, "not run: " + self.why)
        warm, together = self._warm("clean"), self._cell("wiped beside others", "together")
        return (
            self.model,
            self.dtype,
            warm["policy"].partition("block")[2],
            f"{warm['proven_hits']} of {warm['expected_hits']}",
            *(_differing(self._cell("clean", effect)) for effect in ("total", "state", "together")),
            f"{self._noise():.2g}",
            f"exit {self.runs['wiped']['code']}, {_largest(self._cell('wiped', 'state')):.2g}",
            f"exit {self.runs['wiped beside others']['code']}, {_largest(together):.2g}",
            f"{self.seconds:.0f}",
            "NOT as it must be" if self.wrong else "ok",
        )

    def _warm(self, run: str) -> Any:
        return next(arm for arm in self.runs[run]["result"]["arms"] if arm["compiler"] == "warm")

    def _cell(self, run: str, effect: str) -> Any:
        return next(cell for cell in self.runs[run]["result"]["cells"] if cell["effect"] == effect)

    def _differ(self, run: str, effect: str) -> int:
        return int(self._cell(run, effect)["bits_differ"])

    def _noise(self) -> float:
        measures = self.runs["clean"]["result"]["floor"]["measures"]
        return max((each["abs_dlogp"].get("max", 0.0) for each in measures if each["control"] == "batch"), default=0.0)


def _largest(cell: Any) -> float:
    return float(cell["abs_dlogp"].get("max", 0.0))


def _differing(cell: Any) -> str:
    size = f", {_largest(cell):.2g}" if cell["bits_differ"] else ""
    return f"{cell['bits_differ']} of {cell['positions']}{size}"
