"""Copies of one step run side by side on a device: which of them would read what another one writes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from replaycheck.schedule.speculation.steps import CopyConv, CopyState, Memory, Operation, Place


def conflicts(operations: Sequence[Operation]) -> list[str]:
    """Pairs of copies of one kind whose order matters: one writes a slot that the other reads or writes.

    A copy onto its own slot is no conflict: one program reads its whole window before it writes. RecoverSSM's windows after
    sampling aren't copied but compacted, by a kernel that reads final and boundary columns before it writes either.
    """
    found = []
    for kind in (CopyState, CopyConv):
        copies = [op for op in operations if isinstance(op, kind)]
        for writer, other in permutations(copies, 2):
            target = Place(Memory.POOL, writer.destination)
            if target == other.source:
                found.append(f"slot {target.slot} is written by one copy of the step and read by another")
            elif writer.destination == other.destination:
                found.append(f"slot {target.slot} is written by two copies of the step")
    return found
