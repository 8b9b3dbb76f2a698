"""Two steps in flight: a step is planned and launched before the results of the one before are seen.

What a step stores can be hit two steps later, one token is run past the end of an answer and discarded, and the slots of a
request that is over are free a step later. Recounted here from the plan's operations, and run through the model.
"""

from __future__ import annotations

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.operations import Begin, End, GroupPlan, Run, Store, Swap
from replaycheck.schedule.requests import plan_group
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Checkpoint
from replaycheck.schema.arm import Compiler, PoolDtype, Rollback
from replaycheck.schema.policy import VllmPolicy
from replaycheck.schema.trace import Group

from .batching import against
from .found import Check, Found, broken, exact
from .groups import GROUPS, TWINS, WINDOWS
from .lab import BITS
from .policies import PIPELINED, arm_of
from .subject import Subject

__all__ = ["checks", "wrong_pipeline"]

ALL = {**GROUPS, "twins": TWINS, "windows": WINDOWS}


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    late = "stores are hit two steps later, the token past an end is discarded, slots are free a step later"
    return [Check("plan-pipeline", "plans", late, _plans), Check("lab-pipeline", "lab", BITS, _lab)]


def _plans(subject: Subject) -> Found:
    passes = discarded = 0
    for name, played in ALL.items():
        for policy in PIPELINED:
            plan = plan_group(played, policy)
            schedule = subject.spoil(compile_schedule(played, arm_of(Compiler.WARM, policy)))
            run = simulate(schedule)
            wrong = wrong_pipeline(plan) or next(iter(run.problems), None)
            if wrong is None and len(run.restores) != schedule.expected_hits:
                wrong = f"{len(run.restores)} restores, {schedule.expected_hits} expected"
            if wrong:
                return broken("a plan with two steps in flight is wrong", f"group {name}, {policy.slug}: {wrong}")
            passes += sum(isinstance(each, Run) for each in plan.operations)
            discarded += len(_discarded(plan))
    sentence = f"{passes:,} steps of {len(ALL)} groups and {len(PIPELINED)} policies, {discarded} discarded tokens"
    return exact(sentence, steps=passes, discarded=discarded)


def _discarded(plan: GroupPlan) -> list[int]:
    """Requests by the spans that run past their end."""
    runs = [each for each in plan.operations if isinstance(each, Run)]
    return [s.request for run in runs for s in run.spans if s.piece.b > plan.requests[s.request].computed_end]


def wrong_pipeline(plan: GroupPlan) -> str | None:
    """What a plan does earlier than two steps in flight allow, or runs past an end more than once.

    A state may be hit one step after it was left only if its request was taken off in between: then nothing else was there
    to launch, so the step's results were seen before the next one.
    """
    left: dict[str, int] = {}
    off: dict[int, int] = {}
    steps = 0
    for each in plan.operations:
        if isinstance(each, Run):
            left |= {take.checkpoint.name: steps for span in each.spans for take in span.takes}
            steps += 1
        elif isinstance(each, End) or (isinstance(each, Swap) and each.out):
            off[each.request] = steps
        elif isinstance(each, Begin) and each.restore and _early(each.restore, left, off, steps):
            return f"step {steps} hits {each.restore.name}, which step {left[each.restore.name]} leaves"
        elif isinstance(each, Store):
            state = each.stored.take.checkpoint
            if state.position > plan.requests[each.request].computed_end:
                return f"{state.name} is stored, with a token that was discarded"
    return _wrong_ends(plan)


def _early(state: Checkpoint, left: dict[str, int], off: dict[int, int], steps: int) -> bool:
    return steps - left[state.name] < 2 and off.get(state.request, 0) <= left[state.name]


def _wrong_ends(plan: GroupPlan) -> str | None:
    """One token past the end of each answer; the budgets here always have room for it."""
    past = _discarded(plan)
    for index in range(len(plan.requests)):
        if past.count(index) != 1:
            return f"request {index} has {past.count(index)} tokens past its end"
    return None


def _lab(subject: Subject) -> Found:
    """Each group under each policy in a bf16 pool, and windows by a method of each engine."""
    cases = [
        (played, arm_of(Compiler.WARM, policy, pool=PoolDtype.BF16))
        for name, played in ALL.items()
        if name in ("twins", "long-decode", "batch", "preempted", "beam", "tiers")
        for policy in PIPELINED
    ]
    windows: list[Group] = [WINDOWS] * len(PIPELINED)
    for played, policy in zip(windows, PIPELINED, strict=True):
        method = Rollback.SLOTS if isinstance(policy, VllmPolicy) else Rollback.COPY
        cases.append(
            (played, arm_of(Compiler.WARM, policy, pool=PoolDtype.BF16).model_copy(update={"rollback": method}))
        )
    return against(subject, cases, "two steps in flight")
