"""One entry to the compilers: a group and an arm in, a schedule out."""

from __future__ import annotations

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
    check_rollback((group,), (arm,))
    return _COMPILERS[arm.compiler](arm, group.group, plan_group(group, arm.policy, arm.answer))
