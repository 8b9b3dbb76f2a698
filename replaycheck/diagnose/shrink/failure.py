"""Whether a case fails, and how: the checks that say so. A smaller case must fail in the same check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np

from replaycheck.compare.record import ArmRecording
from replaycheck.errors import InternalError, ReplayCheckError
from replaycheck.replay.worker import lab_run, planned
from replaycheck.subjects.lab.executor import execute
from replaycheck.traces.checks import check_group

from ..again import Case

__all__ = ["Check", "checks", "main_check"]


class Check(StrEnum):
    """What says that two arms differ, in the order in which one is chosen: what stays when the others go."""

    #: the lab won't read a slot that nothing wrote
    REFUSED = "a read that the lab refuses"
    HITS = "an expected hit that didn't happen"
    KERNELS = "other kernels"
    LOGITS = "logits with other bits"
    CONV = "a restored convolution window with other bytes"
    STATE = "a restored state with other bits"
    LABELS = "a slot that doesn't hold what its label says"


def checks(case: Case) -> frozenset[Check]:
    """The checks that fail; none if the case can't be run.

    A reason why it can't (an event without its turn, a window past its answer) isn't the failure that is looked for, and
    neither is a fault that finds nothing to spoil.
    """
    if any(True for _ in check_group(case.group)):
        return frozenset()
    try:
        runs = [lab_run(case.work, planned(case.work, case.group, arm)) for arm in (case.reference, case.candidate)]
    except (ReplayCheckError, StopIteration, ValueError, IndexError, KeyError):
        return frozenset()
    for run in runs:
        run.network.reset()
    try:
        reference, candidate = execute(runs)
    except InternalError:
        return frozenset({Check.REFUSED})
    return frozenset(check for check, differ in _CHECKS.items() if differ(reference, candidate))


def main_check(found: frozenset[Check]) -> Check | None:
    """The check that a smaller case must fail, too."""
    return next((check for check in Check if check in found), None)


def _logits(a: ArmRecording, b: ArmRecording) -> bool:
    """Bits at positions that both scored."""
    turns = {turn.key: turn for turn in a.turns}
    pairs = [(turns[turn.key].logits, turn.logits) for turn in b.turns if turn.key in turns]
    return any(x.shape != y.shape or not _same(x, y) for x, y in pairs)


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    return np.array_equal(x.view(np.uint8), y.view(np.uint8))


def _restored(a: ArmRecording, b: ArmRecording) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    states = {state.key: state for state in a.restores}
    for state in b.restores:
        if state.key in states:
            other = states[state.key]
            yield other.temporal, state.temporal, other.conv, state.conv


_CHECKS: Final[Mapping[Check, Callable[[ArmRecording, ArmRecording], bool]]] = MappingProxyType(
    {
        Check.HITS: lambda a, b: b.expected_hits > b.proven_hits,
        Check.KERNELS: lambda a, b: any(b.kernels.get(part, names) != names for part, names in a.kernels.items()),
        Check.LOGITS: _logits,
        Check.CONV: lambda a, b: any(not _same(x, y) for _, _, x, y in _restored(a, b)),
        Check.STATE: lambda a, b: any(not _same(x, y) for x, y, _, _ in _restored(a, b)),
        Check.LABELS: lambda a, b: b.label_mismatches + b.content_mismatches > 0,
    }
)
