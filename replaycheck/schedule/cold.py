"""The cold compiler: no cache; each turn's prompt is computed from token 0.

Where history and tail have unlike kernels, the switch is the one cut, at the position of warm's restore. Earlier answers
are part of the prompt and therefore prefilled. The working state lives in a slot of the pool, as without a cache.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schema.arm import Arm

from .rows import answer_rows, extend, tracks
from .steps import Clear, Compute, Part, RequestPlan, Row, Schedule, Step

SLOT = 1


def compile_cold(arm: Arm, group: str, plans: tuple[RequestPlan, ...]) -> Schedule:
    """Compile for an arm with the cache off."""
    steps: list[Step] = []
    for index, plan in enumerate(plans):
        steps.append(Clear(SLOT))
        steps += [Compute((row,)) for row in _prompt(plan, index, arm)]
        steps += [Compute((row,)) for row in answer_rows(plan, index, arm, tracks(arm)[0], SLOT)]
    return Schedule(arm, group, plans, tuple(steps), SLOT + 1, expected_hits=0)


def _prompt(plan: RequestPlan, index: int, arm: Arm) -> list[Row]:
    whole = replace(extend(plan, index, tracks(arm)[0], SLOT, SLOT), a=0, restored=None)
    if arm.history is arm.tail or not plan.start:
        return [whole]
    history = replace(whole, b=plan.start, kernel=arm.history, part=Part.HISTORY, scored=False)
    return [history, replace(whole, a=plan.start)]
