"""How tokens are put into passes: budgets, order of a pack, padding, prompts with nothing new. No bit may depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from replaycheck.errors import InternalError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Columns, Compute, Row, Schedule
from replaycheck.schema.arm import Arm, CheckpointPolicy, Compiler, Padding, PoolDtype, Rollback, Side
from replaycheck.schema.trace import BatchMates, Group
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput, Tap

from .found import Check, Found, broken, exact
from .groups import GROUPS, WINDOWS, chain, group, turn, with_events
from .lab import BITS, difference
from .policies import PLAYED, POLICIES, arm_of
from .subject import Subject

__all__ = ["against", "checks"]

LENGTHS = (1, 2, 3, 4, 63, 64, 65, 130)
"""Round the convolution's window and the chunk."""
BUDGETS = (1, 3, 33, 63, 65)
"""A prompt token by token; less than a window; odd; round the chunk."""
PADDINGS = {
    side: (Padding(side=side, columns=1), Padding(side=side, columns=16, rows=4), Padding(side=side, columns=64))
    for side in Side
}
"""To the widest row; to a captured batch; to a chunk, with which left padding would move the grid if it counted."""
TURN = CheckpointPolicy(every=64, turn_end=True)


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    masked = "the bits of split-rounded without padding, in first and later turns"
    return [
        Check("plan-padding", "plans", "the mask lets through each row's tokens and no padding", _plans),
        Check("plan-zero-new", "plans", "a prompt that is stored to its end computes one token, never none", _zero_new),
        Check("lab-budgets", "lab", BITS, _budgets),
        Check("lab-pack-order", "lab", "each row's own bits in a pack of any order", _order),
        *(Check(f"lab-padding-{side}", "lab", masked, _padded(side)) for side in Side),
    ]


def _computes(schedule: Schedule) -> Iterator[Compute]:
    return (step for step in schedule.steps if isinstance(step, Compute))


def _plans(subject: Subject) -> Found:
    count = 0
    for name, played in GROUPS.items():
        for policy in PLAYED:
            for padding in (padding for side in PADDINGS.values() for padding in side):
                arm = arm_of(Compiler.WARM, policy).model_copy(update={"padding": padding})
                schedule = subject.spoil(compile_schedule(played, arm))
                wrong = _wrong_columns(schedule, padding) or next(iter(simulate(schedule).problems), None)
                if wrong:
                    return broken("a plan's padding is wrong", f"group {name}, {policy.slug}, {padding.slug}, {wrong}")
                count += sum(len(step.rows) for step in _computes(schedule))
    return exact(f"{count:,} padded rows of {len(GROUPS)} groups and {len(PLAYED)} policies", rows=count)


def _wrong_columns(schedule: Schedule, padding: Padding) -> str | None:
    """Counted column by column: T a token, - padding; a mask is where it lets through."""
    for step in _computes(schedule):
        drawn = {_drawn(row) for row in step.rows}
        width = {len(line) for line in drawn}
        if len(width) != 1 or next(iter(width)) % padding.columns or (len(step.rows) + step.padding) % padding.rows:
            return f"{len(step.rows)} rows and {step.padding} of padding, widths {sorted(width)}"
        for row in step.rows:
            line, plan = _drawn(row), row.columns or Columns(0, 0, 0, row.b - row.a)
            seen = line[plan.first : plan.last]
            if seen != "T" * (row.b - row.a) or line.strip("-") != seen or _side(line, padding.side):
                return f"row {line}, of which {seen} is let through"
    return None


def _drawn(row: Row) -> str:
    plan = row.columns or Columns(0, 0, 0, row.b - row.a)
    return "-" * plan.left + "T" * (row.b - row.a) + "-" * plan.right


def _side(line: str, side: Side) -> bool:
    """Whether padding lies on the other side."""
    return line.endswith("-") if side is Side.LEFT else line.startswith("-")


def _zero_new(subject: Subject) -> Found:
    """Each answer twice in a row, and then the first once more: the second time its whole prompt is known."""
    plain = chain(60, 1, 64, 0, 0, 3)
    asked = [request for request in plain.requests for _ in range(2)]
    again = plain.model_copy(update={"requests": (*asked, plain.requests[0])})
    rows = 0
    for slug, policy in POLICIES.items():
        schedule = subject.spoil(compile_schedule(again, arm_of(Compiler.WARM, policy)))
        problems = simulate(schedule).problems
        found = [row for step in _computes(schedule) for row in step.rows]
        empty = next((row for row in found if row.b <= row.a), None)
        if problems or empty:
            return broken(
                "a prompt that is stored is computed wrongly", f"{slug}, {problems[0] if problems else empty}"
            )
        rows += len(found)
    return exact(f"{len(POLICIES)} policies, {rows} rows of at least one token", rows=rows)


def _mixed() -> Group:
    """Two long answers, beside which two prompts are prefilled in pieces; a prompt that goes on from one of them."""
    turns = []
    for name, size, answer in (("p", 2, 20), ("q", 66, 2), ("r", 63, 30), ("s", 1, 3)):
        turns += [turn(f"u{name}", None, "user", size), turn(name, f"u{name}", "assistant", answer)]
    turns += [turn("v", "q", "user", 2), turn("w", "v", "assistant", 1)]
    mates = BatchMates(kind="batch", turn="p", mates=("q", "r", "s"))
    return with_events(group(turns, ["p", "q", "r", "s", "w"]), mates)


def _budgets(subject: Subject) -> Found:
    """Prefill in pieces of each budget beside answers that are being decoded."""
    mixed = _mixed()
    arms = [
        arm_of(Compiler.WARM, TURN.model_copy(update={"budget": budget}), pool=PoolDtype.BF16) for budget in BUDGETS
    ]
    return against(subject, [(mixed, arm) for arm in arms], "odd budgets, prefill and decode mixed")


def _padded(side: Side) -> Callable[[Subject], Found]:
    def look(subject: Subject) -> Found:
        cases = []
        for padding in PADDINGS[side]:
            for name, policy in (
                ("conversation", TURN),
                ("batch", PLAYED[2]),
                ("empty-turns", TURN),
                ("tiers", PLAYED[4]),
            ):
                cases.append((GROUPS[name], arm_of(Compiler.WARM, policy, pool=PoolDtype.BF16), padding))
        windows = arm_of(Compiler.WARM, TURN, pool=PoolDtype.BF16).model_copy(update={"rollback": Rollback.COPY})
        cases.append((WINDOWS, windows, PADDINGS[side][1]))
        padded = [(each, arm.model_copy(update={"padding": padding})) for each, arm, padding in cases]
        return against(subject, padded, f"padding on the {side}")

    return look


def against(subject: Subject, cases: Sequence[tuple[Group, Arm]], what: str) -> Found:
    """Warm arms against split-rounded ones without padding."""
    update = {"compiler": Compiler.SPLIT_ROUNDED, "padding": None}
    warm = [subject.spoil(compile_schedule(*case)) for case in cases]
    rounded = [compile_schedule(each, arm.model_copy(update=update)) for each, arm in cases]
    subject.network.reset()
    try:
        found = execute([ArmRun(schedule, subject.network) for schedule in (*warm, *rounded)])
    except InternalError as error:
        return broken("a pass can't be computed", str(error))
    for (_, arm), mine, reference in zip(cases, found, found[len(cases) :], strict=False):
        wrong = difference(mine, reference)
        if wrong:
            return broken("a pass changes what it computes", f"{arm.name}, {wrong}")
    positions = sum(len(turn.positions) for each in found[: len(cases)] for turn in each.turns)
    hits = sum(each.proven_hits for each in found[: len(cases)])
    return exact(
        f"{what}: {positions} positions and {hits} restores, the same bits", positions=positions, restores=hits
    )


def _order(subject: Subject) -> Found:
    """Rows of both forms on real states, alone and in packs: in order, backwards, turned round."""
    network = subject.network
    network.reset()
    rows = [row for form in ("chunk", "recurrent") for row in _rows(network, form)]
    with torch.no_grad():
        alone = [network.forward([row])[0] for row in rows]
        for name, order in _orders(len(LENGTHS)).items():
            picked = [*order, *(len(LENGTHS) + at for at in order)]
            for at, got in zip(picked, _forward(network, [rows[at] for at in picked]), strict=True):
                wrong = _unlike(alone[at], got)
                if wrong:
                    example = f"{rows[at].form} row of {len(rows[at].tokens)} tokens in a pack {name}: its {wrong}"
                    return broken("a row depends on the rows beside it", example)
    count = 3 * len(rows)
    return exact(f"{count} rows of {LENGTHS[0]} to {LENGTHS[-1]} tokens, in three orders and alone", rows=count)


def _forward(network: Network, rows: Sequence[RowInput]) -> list[RowOutput]:
    return network.forward(rows)


def _orders(count: int) -> dict[str, list[int]]:
    order = list(range(count))
    return {"in order": order, "backwards": order[::-1], "turned round": [*order[3:], *order[:3]]}


def _rows(network: Network, form: str) -> list[RowInput]:
    """One row a length; every other one continues the state of a prefix."""
    ids = [(7 * i * i + 3 * i + 1) % 96 + 32 for i in range(300)]
    with torch.no_grad():
        before = network.forward([RowInput(ids[:70], 0, form, network.empty_state())])[0].final
    rows = []
    for number, length in enumerate(LENGTHS):
        state, start = (before, 70) if number % 2 else (network.empty_state(), 0)
        taps = (Tap(1, "accumulator", 64, 64),) if length > 64 and form == "chunk" else ()
        rows.append(RowInput(ids[start : start + length], start, form, state, taps))
    return rows


def _unlike(a: RowOutput, b: RowOutput) -> str | None:
    parts = {"logits": (a.logits, b.logits), "state": (a.final.temporal, b.final.temporal)}
    parts["convolution"] = (a.final.conv, b.final.conv)
    for one, other in zip(a.taps, b.taps, strict=True):
        parts["snapshot"] = (one.temporal, other.temporal)
    return next((name for name, pair in parts.items() if not torch.equal(*pair)), None)
