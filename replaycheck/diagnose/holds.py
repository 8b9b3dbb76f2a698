"""Which tokens a wrong state holds: by equal bits of an earlier step, or else by the oracle's nearest state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .lines import OTHER
from .locate import FirstWrong
from .nearest import Nearest
from .symptoms import CLEAR, OWN, Holds
from .trail import Op, Trail

__all__ = ["held_by_bits", "held_by_match"]


def held_by_bits(trail: Trail, wrong: FirstWrong) -> Holds | None:
    """The last earlier step of the candidate that left exactly this recurrent state; zeros and NaN don't count."""
    digests = wrong.step.temporal
    if not wrong.places or len(np.unique(digests)) == 1:
        return None
    number = next(i for i, seen in enumerate(trail.steps) if seen.key == wrong.key)
    meant = trail.schedule.requests[wrong.key.request].tokens
    for seen in reversed(trail.steps[:number]):
        if seen.key.op in (Op.STORE, Op.COMMIT) and np.array_equal(seen.temporal, digests):
            key = seen.key
            held = trail.schedule.requests[key.request].tokens[: key.position]
            line = OWN if key.request == wrong.key.request else f"{OTHER}{key.request}"
            return Holds(key.position, _foreign(held, meant, wrong.key.position), True, line)
    return None


def held_by_match(matches: Sequence[Nearest], lines: Mapping[str, Sequence[int]], meant: int) -> Holds | None:
    """The best match, if it is clear and in the given order of heads."""
    if not matches or matches[0].distance > CLEAR or matches[0].transposed or matches[0].permuted:
        return None
    best = matches[0]
    held = tuple(lines[best.line][: best.position])
    return Holds(best.position, _foreign(held, tuple(lines[OWN]), meant), False, best.line)


def _foreign(held: tuple[int, ...], own: tuple[int, ...], meant: int) -> bool:
    """Whether tokens aren't those of the path, as far as the state is meant to go."""
    upto = min(len(held), meant)
    return held[:upto] != own[:upto]
