"""How a failing cell looks over all its traces: the share that shows it, where on the grid it begins, how it dies in log p.

Onset modulo the chunk, amplitude after the restore, decay, share of traces (docs/statistics.md, Where it begins). In the lab
states say more; these are what any subject shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from replaycheck.schema.arm import CHUNK
from replaycheck.stats.estimate import Estimated
from replaycheck.stats.half_life import decay_rate, half_life

__all__ = ["COLUMNS", "Across", "across"]

COLUMNS = ("cell", "trace", "turn", "position", "dlogp", "bits_equal", "offset_from_restore")
FARTHEST = 256
"""Tokens after a restore that are looked at: as many as the curve round restores shows after one."""


@dataclass(frozen=True)
class Across:
    """One cell over its traces.

    Attributes:
        traces: compared. showing: those with any position that differs.
        residues: first differing positions modulo the chunk, and in how many traces; most frequent first.
        sizes: mean size of Δ log p in nat by tokens after the restore, where any were scored.
        fading: its half-life in tokens.
    """

    traces: int
    showing: int
    residues: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, float], ...]
    fading: Estimated

    @property
    def share(self) -> float:
        return self.showing / self.traces if self.traces else 0.0

    def lines(self) -> Iterator[str]:
        """As evidence."""
        yield f"it shows in {self.showing} of {self.traces} traces of the cell"
        if self.residues:
            listed = ", ".join(f"{place} ({count})" for place, count in self.residues[:5])
            more = f" and {len(self.residues) - 5} other places" if len(self.residues) > 5 else ""
            yield f"first differing positions modulo {CHUNK} (traces): {listed}{more}"
        if self.sizes:
            (first, size), (last, left) = self.sizes[0], self.sizes[-1]
            own = f"; it halves in {self.fading.value:.3g} tokens" if self.fading.value else "; it doesn't fade"
            yield (
                f"mean |Δ log p| {size:.3g} nat {first} tokens after the restore, {left:.3g} at {last}"
                f"{own if len(self.sizes) > 2 else ''} (attention's cache keeps an error, so log p has a floor)"
            )


def across(cell: str, parts: Iterable[pd.DataFrame]) -> Across:
    """Of one cell, from the parts of ``pairs`` with :data:`COLUMNS`; a trace lies in one part."""
    traces: set[str] = set()
    first: dict[str, tuple[int, int]] = {}
    sums, counts = np.zeros(FARTHEST + 1), np.zeros(FARTHEST + 1)
    for part in parts:
        rows = part[part["cell"].astype(str) == cell]
        names = rows["trace"].astype(str)
        traces |= set(names)
        wrong = rows["bits_equal"].eq(False).fillna(False).astype(bool)
        for name, turn, position in zip(names[wrong], rows["turn"][wrong], rows["position"][wrong], strict=True):
            first[name] = min(first.get(name, (turn, position)), (turn, position))
        near = rows[rows["offset_from_restore"].between(0, FARTHEST).fillna(False).astype(bool) & rows["dlogp"].notna()]
        offsets = near["offset_from_restore"].to_numpy(np.int64)
        np.add.at(sums, offsets, near["dlogp"].abs().to_numpy(np.float64))
        np.add.at(counts, offsets, 1)
    residues = Counter(int(position) % CHUNK for _, position in first.values())
    seen = np.flatnonzero(counts)
    means = sums[seen] / counts[seen]
    fading = half_life(decay_rate(means, seen.astype(np.float64)))
    sizes = tuple(zip(seen.tolist(), means.tolist(), strict=True)) if means.any() else ()
    return Across(len(traces), len(first), tuple(residues.most_common()), sizes, fading)
