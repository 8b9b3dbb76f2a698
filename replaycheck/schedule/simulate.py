"""The integer simulator: run a schedule on {slot → what it holds} and say where plan and logic disagree.

A slot holds the first ``tokens`` tokens of some path, or nothing: before the first write, and after it was freed. Rows must
continue the path they say they do, copies and commits must move what they name, a stored state is never written over, and
the null slot never at all. No tensor is needed, so plans, labels, hits and the effect of plan faults are tested as data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from replaycheck.schema.arm import CHUNK

from .steps import (
    NULL_SLOT,
    Checkpoint,
    Clear,
    Commit,
    Copy,
    CopyReason,
    Evict,
    Free,
    Row,
    Schedule,
    Snapshot,
    Source,
    Step,
)


@dataclass(frozen=True)
class Content:
    """What a slot holds: a token prefix, the tokens with which its conv window ends, and how many more tokens than the
    prefix its attention cache holds. These two differ from the prefix only if a plan is wrong.

    pending: the last tokens of the prefix that its ring alone holds.
    """

    tokens: tuple[int, ...]
    conv_end: int
    surplus: int = 0
    pending: int = 0

    def copied(self) -> Content:
        """What a copy of the slot holds: it has no ring."""
        return replace(self, tokens=self.tokens[: len(self.tokens) - self.pending], pending=0) if self.pending else self


@dataclass(frozen=True)
class Label:
    """A line of the audit's table: at this step this slot is said to hold this state, and the plan put ``held`` there."""

    step: int
    slot: int
    name: str
    position: int
    held: Content


@dataclass
class Simulation:
    """Outcome: contents at the end, disagreements in words, restores that were executed, in order.

    Attributes:
        owners: stored states by slot.
        freed: slots that were given back and not written since.
        labels: every store, restore, fork, rollback and tier copy, with what its slot is said to hold.
        by_step: the disagreements by the number of their step.
    """

    slots: dict[int, Content] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    restores: list[str] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    freed: set[int] = field(default_factory=set)
    labels: list[Label] = field(default_factory=list)
    wrong_labels: int = 0
    by_step: dict[int, list[str]] = field(default_factory=dict)


def simulate(schedule: Schedule) -> Simulation:
    """Run the plan."""
    run, names = Simulation(), schedule.checkpoints()
    for number, step in enumerate(schedule.steps):
        known = len(run.problems)
        _do(run, schedule, names, step, number)
        if run.problems[known:]:
            run.by_step[number] = run.problems[known:]
    return run


def _do(run: Simulation, schedule: Schedule, names: dict[str, Checkpoint], step: Step, number: int) -> None:
    if isinstance(step, Clear):
        _write(run, step.slot, Content((), 0), number)
    elif isinstance(step, Copy):
        _copy(run, schedule, names[step.checkpoint], step, number)
    elif isinstance(step, Commit):
        _check_label(run, schedule, names[step.checkpoint], step.slot, number)
        run.owners[step.slot] = step.checkpoint
    elif isinstance(step, Evict):
        _evict(run, step, number)
    elif isinstance(step, Free):
        _free(run, step.slot, number)
    else:
        _compute(run, schedule, step.rows, number)


def _write(run: Simulation, slot: int, content: Content, step: int) -> None:
    if slot == NULL_SLOT:
        run.problems.append(f"step {step}: writes the null slot")
    if slot in run.owners:
        run.problems.append(f"step {step}: writes slot {slot}, which {run.owners[slot]} is stored in")
    run.slots[slot] = content
    run.freed.discard(slot)


def _read(run: Simulation, slot: int, step: int) -> Content:
    if slot not in run.slots:
        run.problems.append(f"step {step}: reads slot {slot}, which nothing wrote")
    elif slot in run.freed:
        run.problems.append(f"step {step}: reads slot {slot}, which was freed")
    return run.slots.get(slot, Content((), 0))


def _evict(run: Simulation, step: Evict, number: int) -> None:
    if run.owners.pop(step.slot, None) != step.checkpoint:
        run.problems.append(f"step {number}: evicts {step.checkpoint} from slot {step.slot}, which doesn't hold it")


def _free(run: Simulation, slot: int, step: int) -> None:
    if slot in run.owners:
        run.problems.append(f"step {step}: frees slot {slot}, which {run.owners[slot]} is stored in")
    if slot in run.freed:
        run.problems.append(f"step {step}: frees slot {slot} twice")
    run.freed.add(slot)


def _copy(run: Simulation, schedule: Schedule, state: Checkpoint, step: Copy, number: int) -> None:
    if step.reason is CopyReason.RESTORE:
        run.restores.append(step.checkpoint)
    held = _check_label(run, schedule, state, step.source, number)
    _write(run, step.destination, held.copied(), number)


def _check_label(run: Simulation, schedule: Schedule, state: Checkpoint, slot: int, step: int) -> Content:
    """What the slot holds; a problem if that isn't the state."""
    held = _read(run, slot, step)
    meant = schedule.requests[state.request].tokens[: state.position]
    run.labels.append(Label(step, slot, state.name, state.position, held))
    if held != Content(meant, state.position):
        run.wrong_labels += 1
        run.problems.append(
            f"step {step}: {state.name} means {state.position} tokens; slot {slot} holds {len(held.tokens)}"
            f" with a conv window that ends at {held.conv_end}" + _beyond(held)
        )
    return held


def _compute(run: Simulation, schedule: Schedule, rows: tuple[Row, ...], step: int) -> None:
    writes: list[tuple[int, Content]] = []
    for row in rows:
        tokens = schedule.requests[row.request].tokens
        held = _read(run, row.source, step)
        if held != Content(tokens[: row.a], row.a, pending=row.lag.before if row.lag else 0):
            run.problems.append(
                f"step {step}: a row from {row.a} reads slot {row.source} with {len(held.tokens)} tokens"
                f" and a conv window that ends at {held.conv_end}" + _beyond(held)
            )
        line = tokens[: row.a] + schedule.requests[row.request].seen_of(row)
        for snap in row.snapshots:
            writes.append((snap.destination, Content(line[: _end(row, snap, len(line))], row.a + snap.conv_end)))
        left = _left(row, line)
        writes.append((row.destination, replace(left, pending=_pending(run, schedule, row, held, step))))
        if row.window is not None:
            _check_kept(run, schedule, row, left, step)
    for slot, content in writes:
        _write(run, slot, content, step)


def _pending(run: Simulation, schedule: Schedule, row: Row, held: Content, step: int) -> int:
    """Tokens that are in the slot's ring alone when a window was pushed there. It is folded or grows; it never overflows."""
    if row.lag is None or row.lag.after == 0:
        return 0
    pending, ring = held.pending + (row.kept.temporal if row.kept else row.b - row.a), schedule.arm.ring
    if ring is not None and pending > ring:
        run.problems.append(f"step {step}: the ring of slot {row.destination} has {ring} tokens and is given {pending}")
    return pending


def _check_kept(run: Simulation, schedule: Schedule, row: Row, left: Content, step: int) -> None:
    """What a window leaves is labelled as a store is: the state after the kept tokens of the path."""
    request = schedule.requests[row.request]
    state = request.verified(row.request, row.window or 0)
    run.labels.append(Label(step, row.destination, state.name, state.position, left))
    if left != Content(request.tokens[: state.position], state.position):
        run.wrong_labels += 1
        run.problems.append(
            f"step {step}: {state.name} keeps {state.position - row.a} tokens of a window; slot {row.destination} holds"
            f" {len(left.tokens) - row.a} with a conv window that ends at {left.conv_end}" + _beyond(left)
        )


def _end(row: Row, snap: Snapshot, final: int) -> int:
    """The position of a snapshot. ``final``: that of the row's end."""
    if snap.source is Source.FINAL:
        return final
    return row.a + (snap.chunk if snap.source is Source.POSITION else snap.chunk * CHUNK)


def _left(row: Row, line: tuple[int, ...]) -> Content:
    """What a row leaves in its destination. ``line``: the path up to the row, then the tokens that it runs."""
    if row.kept is None:
        return Content(line, len(line))
    kept = row.kept
    return Content(line[: row.a + kept.temporal], row.a + kept.conv, kept.pages - kept.temporal)


def _beyond(held: Content) -> str:
    cached = f" and an attention cache of {len(held.tokens) + held.surplus} tokens" if held.surplus else ""
    return cached + (f", of which {held.pending} are in its ring alone" if held.pending else "")
