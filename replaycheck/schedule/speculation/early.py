"""What can't be played, said before anything runs: windows that contradict their answer, and methods that don't fit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replaycheck.errors import UsageError
from replaycheck.schema.arm import Arm, Rollback
from replaycheck.schema.policy import SglangPolicy, VllmPolicy
from replaycheck.schema.trace import Group, Speculation, Trace
from replaycheck.traces.tree import TraceTree

from .method import Setup
from .windows import Window, windows_of


def windows_by_turn(group: Group, trace: Trace) -> dict[str, tuple[Window, ...]]:
    """The windows of the answers that have events, steps without drafts between them included.

    Raises:
        UsageError: events that overlap, run past their answer, or accept what isn't the answer's.
    """
    events: dict[str, list[Speculation]] = {}
    for event in trace.events:
        if isinstance(event, Speculation):
            events.setdefault(event.turn, []).append(event)
    tree = TraceTree(trace)
    return {
        turn: windows_of(tree.path(turn).answer, mine, f"group {group.group!r}, trace {trace.id!r}, turn {turn!r}")
        for turn, mine in events.items()
    }


def widest(group: Group) -> int:
    """Tokens of the longest window of a group; 1 without any."""
    found = [windows_by_turn(group, trace).values() for trace in group.traces]
    return max((window.length for turns in found for windows in turns for window in windows), default=1)


def check_rollback(groups: Iterable[Group], arms: Sequence[Arm]) -> None:
    """Refuse arms whose rollback method can't do a group's windows.

    Raises:
        UsageError: with the reason; some engines find out at the first accepted draft.
    """
    wanted = [(arm, arm.rollback) for arm in arms if arm.rollback is not None]
    for group in groups if wanted else ():
        width = widest(group)
        for arm, method in wanted:
            _check(group, arm, method, width)


def _check(group: Group, arm: Arm, method: Rollback, width: int) -> None:
    policy = arm.policy
    ring = (arm.ring or width) if method is Rollback.REPLAY else arm.ring
    block = policy.block if isinstance(policy, VllmPolicy) and policy.align else None
    interval = policy.track_grid if isinstance(policy, SglangPolicy) and policy.double_buffer else None
    try:
        Setup(method, width, arm.pool, block=block, capacity=ring, interval=interval)
    except UsageError as error:
        raise UsageError(f"group {group.group!r}, arm {arm.name}: {error}") from None
