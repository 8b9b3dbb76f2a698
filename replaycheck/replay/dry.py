"""Who computes what: the table of ``run --dry-run``, from compiled schedules alone."""

from __future__ import annotations

from replaycheck.report.verdict import not_checked
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Compute, Schedule
from replaycheck.schema.arm import Arm

from .settings import Settings

_HEAD = ("arm", "history", "tail", "answer", "answers", "pool", "checkpoints", "hits", "tokens")


def arm_table(settings: Settings) -> str:
    """One line an arm: kernels, how answers entered the state, pool, policy, expected hits, tokens to compute."""
    rows = [_HEAD, *(_row(settings, arm) for arm in settings.arms)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append(f"{len(settings.groups)} groups, {len(settings.arms)} arms, {len(settings.cells)} cells")
    lines.append(f"kernels {settings.label}, recipe {settings.recipe}, {settings.device}")
    lines += not_checked(settings.not_checked)
    return "\n".join(lines)


def _row(settings: Settings, arm: Arm) -> tuple[str, ...]:
    schedules = [compile_schedule(group, arm) for group in settings.groups]
    return (
        f"{arm.compiler}, {arm.tensor_parallel} ranks" if arm.tensor_parallel > 1 else str(arm.compiler),
        str(arm.history),
        str(arm.tail),
        f"{arm.answer}, {arm.rollback}" if arm.rollback else str(arm.answer),
        str(arm.answers),
        str(arm.pool),
        arm.policy.slug,
        str(sum(schedule.expected_hits for schedule in schedules)),
        str(sum(map(_tokens, schedules))),
    )


def _tokens(schedule: Schedule) -> int:
    rows = [row for step in schedule.steps if isinstance(step, Compute) for row in step.rows]
    return sum(row.b - row.a for row in rows)
