"""The integer simulator: run a schedule on {slot → what it holds} and say where plan and logic disagree.

A slot holds the first ``tokens`` tokens of some path. Rows must continue the path they say they do, copies and commits must
move the checkpoint they name. No tensor is needed, so plans, labels, hits and the effect of plan faults are tested as data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replaycheck.schema.arm import CHUNK

from .steps import NULL_SLOT, Clear, Commit, Compute, Copy, CopyReason, Row, Schedule, Source


@dataclass(frozen=True)
class Content:
    """What a slot holds: a token prefix, and its conv window's end if a plan moved that."""

    tokens: tuple[int, ...]
    conv_end: int


@dataclass
class Simulation:
    """Outcome: contents at the end, disagreements in words, restores that were executed, in order."""

    slots: dict[int, Content] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    restores: list[str] = field(default_factory=list)
    wrong_labels: int = 0


def simulate(schedule: Schedule) -> Simulation:
    """Run the plan."""
    run = Simulation()
    for number, step in enumerate(schedule.steps):
        where = f"step {number}"
        if isinstance(step, Clear):
            _write(run, step.slot, Content((), 0), where)
        elif isinstance(step, Copy):
            _copy(run, schedule, step, where)
        elif isinstance(step, Commit):
            _check_label(run, schedule, step.checkpoint, step.slot, where)
        elif isinstance(step, Compute):
            _compute(run, schedule, step.rows, where)
    return run


def _write(run: Simulation, slot: int, content: Content, where: str) -> None:
    if slot == NULL_SLOT:
        run.problems.append(f"{where}: writes the null slot")
    run.slots[slot] = content


def _read(run: Simulation, slot: int, where: str) -> Content:
    if slot not in run.slots:
        run.problems.append(f"{where}: reads slot {slot}, which nothing wrote")
    return run.slots.get(slot, Content((), 0))


def _copy(run: Simulation, schedule: Schedule, step: Copy, where: str) -> None:
    content = _read(run, step.source, where)
    if step.reason is CopyReason.RESTORE:
        run.restores.append(step.checkpoint)
        _check_label(run, schedule, step.checkpoint, step.source, where)
    _write(run, step.destination, content, where)


def _check_label(run: Simulation, schedule: Schedule, name: str, slot: int, where: str) -> None:
    checkpoint = schedule.checkpoints()[name]
    meant = schedule.requests[checkpoint.request].tokens[: checkpoint.position]
    held = _read(run, slot, where)
    if held != Content(meant, checkpoint.position):
        run.wrong_labels += 1
        run.problems.append(
            f"{where}: {name} means {checkpoint.position} tokens; slot {slot} holds {len(held.tokens)}"
            f" with a conv window that ends at {held.conv_end}"
        )


def _compute(run: Simulation, schedule: Schedule, rows: tuple[Row, ...], where: str) -> None:
    writes: list[tuple[int, Content]] = []
    for row in rows:
        tokens = schedule.requests[row.request].tokens
        held = _read(run, row.source, where)
        if held.tokens != tokens[: row.a] or held.conv_end != row.a:
            run.problems.append(f"{where}: a row from {row.a} reads slot {row.source} with {len(held.tokens)} tokens")
        for snap in row.snapshots:
            position = row.b if snap.source is Source.FINAL else row.a + snap.chunk * CHUNK
            writes.append((snap.destination, Content(tokens[:position], row.a + snap.conv_end)))
        writes.append((row.destination, Content(tokens[: row.b], row.b)))
    for slot, content in writes:
        _write(run, slot, content, where)
