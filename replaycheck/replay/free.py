"""Which arms can run freely, each on its own answers; of the others, why not."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.errors import UsageError
from replaycheck.schema.arm import Arm, Cell, Kernel
from replaycheck.schema.suite import Suite
from replaycheck.subjects.choose import LAB

__all__ = ["not_free", "refuse_free_subject", "runs_freely"]


def runs_freely(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """The arms that say one token at a time. A repeat would say the same again, and is a control of the forced run."""
    return tuple(arm for arm in arms if not _why_not(arm) and not arm.repeat)


def _why_not(arm: Arm) -> str:
    if arm.rollback is not None:
        return "drafts, and how many are accepted, belong to the trace's answers"
    if arm.answer is not Kernel.RECURRENT:
        return f"the {arm.answer} kernel runs an answer as one extend, so it must be known"
    return ""


def not_free(suite: Suite, arms: Sequence[Arm], cells: Sequence[Cell]) -> tuple[str, ...]:
    """``free run of CELL: reason`` for the cells that the free experiment leaves out."""
    if "free" not in suite.experiments:
        return ()
    why = {arm.name: _why_not(arm) for arm in arms}
    found = ((cell.name, why[cell.candidate] or why[cell.reference]) for cell in cells)
    return tuple(f"free run of {name}: {reason}" for name, reason in found if reason)


def refuse_free_subject(suite: Suite, subject: str) -> None:
    """Raises :class:`UsageError` for the free experiment on anything but the lab."""
    if "free" in suite.experiments and subject != LAB:
        raise UsageError(
            f"--subject {subject}: only the lab runs freely beside the forced experiment; leave --free out, and "
            '"free" out of the suite\'s experiments'
        )
