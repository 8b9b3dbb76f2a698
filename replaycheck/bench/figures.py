"""From samples to figures, and ratios sample by sample: subjects that took turns saw the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from replaycheck.errors import InternalError
from replaycheck.schema.bench import Figure


def figure(subject: str, quantity: str, unit: str, samples: Sequence[float]) -> Figure:
    """The median of the samples with the lowest and the highest. At least one sample."""
    if not samples:
        raise InternalError(f"{subject}, {quantity}: nothing was measured")
    return Figure(
        subject=subject,
        quantity=quantity,
        unit=unit,
        median=median(samples),
        lowest=min(samples),
        highest=max(samples),
        runs=len(samples),
    )


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """above[i] / below[i], for samples that were taken in turn.

    Where one has more samples than the other, its later ones have no partner and are left out.
    """
    return [a / b for a, b in zip(above, below, strict=False)]
