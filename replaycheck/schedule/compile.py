"""One entry to the compilers: a group and an arm in, a schedule out."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.arm import Arm, Compiler
from replaycheck.schema.trace import Group

from .cold import compile_cold
from .requests import plan_group
from .speculation.early import check_rollback
from .split import compile_split
from .steps import Schedule
from .warm import compile_warm

_COMPILERS = {
    Compiler.COLD: compile_cold,
    Compiler.SPLIT: compile_split,
    Compiler.SPLIT_ROUNDED: compile_split,
    Compiler.WARM: compile_warm,
}


def compile_schedule(group: Group, arm: Arm) -> Schedule:
    """Compile ``group`` for ``arm``.

    Raises:
        UsageError: events can't be played, or the arm's rollback method can't do the group's windows.
    """
    return compile_arms(group, (arm,))[0]


def compile_arms(group: Group, arms: Sequence[Arm]) -> list[Schedule]:
    """Compile ``group`` for each arm; arms with one policy and answer kernel share the plan, which is most of the work."""
    check_rollback((group,), arms)
    plans = {(arm.policy, arm.answer): arm for arm in arms}
    shared = {key: plan_group(group, arm.policy, arm.answer) for key, arm in plans.items()}
    return [_COMPILERS[arm.compiler](arm, group.group, shared[arm.policy, arm.answer]) for arm in arms]
