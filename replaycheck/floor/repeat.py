"""F_run of a run: cold groups replayed twice, each time from nothing, and compared bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from replaycheck.compare.spill import Spill
from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import work_of
from replaycheck.replay.worker import Work, replay_groups
from replaycheck.schema.floor import Control, FloorKind, Measure
from replaycheck.schema.trace import Group
from replaycheck.subjects.choose import LAB

from .controls import Pairing, cold_arms, with_changes
from .sums import FloorSums

__all__ = ["measure_repeat", "repeated"]

GROUPS_OF_THE_LAB = 1
"""The lab's bits don't depend on when it runs: its start-up check measures what they could depend on. One group shows it."""

GROUPS_OF_OTHERS = 64
"""Of any other subject nothing is known. 64 traces are what the gates of equivalence need (statistics.md C.0)."""


def measure_repeat(settings: Settings, scratch: Path) -> tuple[Measure, ...]:
    """One measure for each distinct cold arm of the run; none if it has no cold arm, or if nothing needs it.

    The lab is repeated only for a gate that reads F_run: a decode step of the cold path takes as long as one of all arms
    together, so a repeat costs more than it tells where the start-up check has passed. Others are repeated always.

    Args:
        scratch: a folder for sums; nothing of them stays.
    """
    cold = cold_arms(settings.arms)
    wanted = any(gate.floor is FloorKind.RUN for loaded in settings.gates for gate in loaded.gates.gate)
    if not cold or not (wanted or settings.subject != LAB):
        return ()
    work = replace(work_of(settings), arms=cold, cells=(), experiments=("forced",))
    return repeated(work, _chosen(settings), scratch)


def repeated(work: Work, groups: Iterable[Group], scratch: Path) -> tuple[Measure, ...]:
    """One measure for each arm of ``work``, which are all cold, over groups that are replayed twice."""
    again = tuple(Pairing(Control.REPEAT, arm, with_changes(arm, repeat=1)) for arm in work.arms)
    with Spill(scratch) as spill:
        sums = FloorSums(again, spill)
        for group in groups:
            sums.add(_twice(work, group, again))
        return sums.finish()


def _chosen(settings: Settings) -> Iterator[Group]:
    """The lab's group with the fewest answer tokens; of another subject groups from the whole suite, evenly."""
    groups = settings.groups
    if settings.subject == LAB:
        chosen = np.argsort(np.frombuffer(groups.scored, np.int64), kind="stable")[:GROUPS_OF_THE_LAB].tolist()
    else:
        step = max(1, len(groups) // GROUPS_OF_OTHERS)
        chosen = list(range(0, len(groups), step))[:GROUPS_OF_OTHERS]
    return (groups.parse(index) for index in chosen)


def _twice(work: Work, group: Group, again: tuple[Pairing, ...]) -> pa.Table:
    """Observations of two replays, the second's arms by their repeat's name."""
    first, second = (replay_groups(work, [group])[0].tables["observations"] for _ in range(2))
    names = {pairing.reference.name: pairing.candidate.name for pairing in again}
    arms = pa.array([names[name] for name in second["arm"].to_pylist()], pa.string()).dictionary_encode()
    renamed = second.set_column(second.schema.get_field_index("arm"), "arm", arms)
    return pa.concat_tables([first, renamed]).unify_dictionaries()
