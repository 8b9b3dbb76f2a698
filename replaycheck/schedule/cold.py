"""The cold compiler: no cache; each turn's prompt is computed from token 0, in pieces of the budget if there is one.

Where history and tail have unlike kernels, the switch is the one cut, at the position of warm's restore. Earlier answers
are part of the prompt and therefore prefilled. The working state lives in a slot of the pool, as without a cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaycheck.schema.arm import Arm, Kernel

from .operations import GroupPlan, Span
from .prefix.job import Piece
from .rows import Track, row, tracks
from .steps import Clear, Compute, Part, RequestPlan, Row, Schedule, Step

SLOT = 1


def compile_cold(arm: Arm, group: str, plan: GroupPlan) -> Schedule:
    """Compile for an arm with the cache off."""
    steps: list[Step] = []
    for index, request in enumerate(plan.requests):
        steps.append(Clear(SLOT))
        steps += [Compute((each,)) for each in _rows(request, index, arm)]
    return Schedule(arm, group, plan.requests, tuple(steps), SLOT + 1, expected_hits=0)


def _rows(plan: RequestPlan, index: int, arm: Arm) -> Iterator[Row]:
    tail = tracks(arm)[0]
    cut = plan.start if arm.history is not arm.tail else 0
    history = Track(arm.history, Part.HISTORY, scored=False, stores=False)
    longest = arm.policy.budget or plan.end
    step = 1 if arm.answer is Kernel.RECURRENT else longest
    for track, part, a, b, size in (
        (history, Part.HISTORY, 0, cut, longest),
        (tail, Part.TAIL, cut, plan.prompt, longest),
        (tail, Part.ANSWER, plan.prompt, plan.computed_end, step),
    ):
        for at in range(a, b, size):
            yield row(Span(index, Piece(at, min(at + size, b), part), ()), arm, track, SLOT, SLOT)
