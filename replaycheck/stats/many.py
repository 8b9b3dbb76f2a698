"""Many cells: a table to explore is corrected for its size, a sequence of gates costs nothing (docs/statistics.md).

Cells share traces, so their p values depend on each other in ways nobody knows; Benjamini and Yekutieli 2001 (Ann. Stat.
29) holds under any. A gate's sequence is fixed beforehand: each hypothesis is tested at the full level, and the first that
doesn't pass ends it (Maurer, Hothorn & Lehmacher 1995).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
from scipy.stats import false_discovery_control

from .reduction import Values

__all__ = ["Step", "benjamini_yekutieli", "fixed_sequence"]


class Step(StrEnum):
    """What became of a stage."""

    PASSED = "passed"
    NOT_PASSED = "not passed"
    #: an earlier stage didn't pass
    NOT_JUDGED = "not judged"


def benjamini_yekutieli(p: Values) -> Values:
    """Adjusted p values [n]; those at or below q form a set with at most a share q of false discoveries, on average."""
    return np.asarray(false_discovery_control(p, method="by"), np.float64) if len(p) else np.empty(0)


def fixed_sequence(passed: Mapping[str, bool]) -> dict[str, Step]:
    """The stages of ``passed`` in its order, up to the first that failed."""
    found: dict[str, Step] = {}
    going = True
    for stage, result in passed.items():
        found[stage] = (Step.PASSED if result else Step.NOT_PASSED) if going else Step.NOT_JUDGED
        going = going and result
    return found
