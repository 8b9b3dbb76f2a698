"""Which arms and cells of a suite the chosen kernels can do, and what is said about the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replaycheck.errors import UsageError
from replaycheck.schema.arm import Arm, Cell
from replaycheck.subjects.lab.kernels import LabKernels


@dataclass(frozen=True)
class Possible:
    """not_checked: ``cell: reason`` for each cell that is left out."""

    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    not_checked: tuple[str, ...] = ()


def possible(arms: Sequence[Arm], cells: Sequence[Cell], kernels: LabKernels, named: bool) -> Possible:
    """Leave out the cells of which an arm can't be run, and the arms that no cell needs then.

    Args:
        named: the user wrote the matrix, so that an impossible cell is a mistake and not a gap.

    Raises:
        UsageError: an impossible cell was named, or none is left.
    """
    reasons = {arm.name: reason for arm in arms if (reason := kernels.cannot(arm))}
    why = {cell: reasons.get(cell.candidate) or reasons.get(cell.reference) for cell in cells}
    missing = tuple(f"{cell.name}: {reason}" for cell, reason in why.items() if reason)
    left = tuple(cell for cell, reason in why.items() if not reason)
    if missing and (named or not left):
        more = f", and {len(missing) - 1} more cells" if len(missing) > 1 else ""
        raise UsageError(f"{kernels.label} can't do {missing[0]}{more}; take them out of the matrix")
    needed = {name for cell in left for name in (cell.reference, cell.candidate)}
    return Possible(tuple(arm for arm in arms if arm.name in needed), left, missing)
