"""F_run of a run: cold groups replayed once more from nothing, and compared bit for bit with the first time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from replaycheck.compare.spill import Spill
from replaycheck.replay.parts import read_part
from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import batches_of, work_of
from replaycheck.replay.store import Run, groups_done
from replaycheck.replay.worker import Work, replay_groups
from replaycheck.say import Say
from replaycheck.schema.floor import Control, FloorKind, Measure
from replaycheck.schema.trace import Group
from replaycheck.subjects.choose import LAB

from .controls import Pairing, cold_arms, with_changes
from .sums import COLUMNS, FloorSums

__all__ = ["measure_repeat", "repeated"]

GROUPS_OF_THE_LAB = 1
"""The lab's bits don't depend on when it runs: its start-up check measures what they could depend on. One group shows it."""

GROUPS_OF_OTHERS = 64
"""Of any other subject nothing is known. 64 traces are what the gates of equivalence need (docs/statistics.md)."""


def measure_repeat(settings: Settings, run: Run, say: Say = lambda line: None) -> tuple[Measure, ...]:
    """One measure for each distinct cold arm of the run; none if it has no cold arm, or if nothing needs it.

    The first time is the run's own cold arm, as it is stored; so a group is replayed once more, in a process of its own.
    The lab is repeated only for a gate that reads F_run: a decode step of the cold path takes as long as one of all arms
    together, so a repeat costs more than it tells where the start-up check has passed. Others are repeated always.

    Args:
        run: with its finished groups. A folder for sums is made in it; nothing of it stays.
    """
    cold = cold_arms(settings.arms)
    wanted = any(gate.floor is FloorKind.RUN for loaded in settings.gates for gate in loaded.gates.gate)
    chosen = _chosen(settings) if cold and (wanted or settings.subject != LAB) else []
    if not chosen:
        return ()
    work = replace(work_of(settings), arms=cold, cells=(), experiments=("forced",))
    return _measured(work, _stored_and_again(work, settings, run, chosen, say), run.path)


def repeated(work: Work, groups: Iterable[Group], scratch: Path) -> tuple[Measure, ...]:
    """One measure for each arm of ``work``, which are all cold, over groups that are replayed twice."""
    return _measured(work, ((_replayed(work, group), _replayed(work, group)) for group in groups), scratch)


def _measured(work: Work, twice: Iterable[tuple[pa.Table, pa.Table]], scratch: Path) -> tuple[Measure, ...]:
    again = tuple(Pairing(Control.REPEAT, arm, with_changes(arm, repeat=1)) for arm in work.arms)
    with Spill(scratch) as spill:
        sums = FloorSums(again, spill)
        for first, second in twice:
            sums.add(_renamed(first, second, again))
        return sums.finish()


def _chosen(settings: Settings) -> list[int]:
    """The lab's group with the fewest answer tokens; of another subject's some of the whole suite, evenly. A shard chooses
    the same as the whole run, so that merged shards have its floor."""
    groups = settings.groups
    if settings.subject == LAB:
        return sorted(range(len(groups)), key=lambda each: (groups.scored[each], each))[:GROUPS_OF_THE_LAB]
    return list(range(0, len(groups), max(1, len(groups) // GROUPS_OF_OTHERS)))[:GROUPS_OF_OTHERS]


def _stored_and_again(
    work: Work, settings: Settings, run: Run, chosen: list[int], say: Say
) -> Iterator[tuple[pa.Table, pa.Table]]:
    done = groups_done(run)
    parts = {at: part.name for part in batches_of(settings) if part.name in done for at in range(part.first, part.last)}
    for number, at in enumerate(chosen, 1):
        group = settings.groups.parse(at)
        say(f"cold once more, for F_run: {number} of {len(chosen)} groups ({group.group})")
        # Another shard's group isn't stored here, nor one that --fail-fast left out: it is replayed for both.
        first = _stored(work, run, parts[at], group) if at in parts else _replayed(work, group)
        yield first, _replayed(work, group)


def _stored(work: Work, run: Run, part: str, group: Group) -> pa.Table:
    """The run's own observations of the cold arms on one group."""
    traces, arms = [trace.id for trace in group.traces], [arm.name for arm in work.arms]
    rows = read_part(run, "observations", part, COLUMNS)
    for column, values in (("trace", traces), ("arm", arms), ("experiment", ["forced"])):
        rows = rows.filter(pc.is_in(rows[column].cast(pa.string()), pa.array(values)))
    return rows


def _replayed(work: Work, group: Group) -> pa.Table:
    return replay_groups(work, [group])[0].tables["observations"].select(list(COLUMNS))


def _renamed(first: pa.Table, second: pa.Table, again: tuple[Pairing, ...]) -> pa.Table:
    """Observations of two replays, the second's arms by their repeat's name."""
    names = {pairing.reference.name: pairing.candidate.name for pairing in again}
    arms = pa.array([names[name] for name in second["arm"].to_pylist()], pa.string()).dictionary_encode()
    renamed = second.set_column(second.schema.get_field_index("arm"), "arm", arms)
    return pa.concat_tables([first, renamed]).unify_dictionaries()
