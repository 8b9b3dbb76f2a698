"""The worst positions of cold-vs-warm cells, and whether a rounding of the restored state explains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replaycheck.compare.columns import floats, integers, names
from replaycheck.errors import UsageError
from replaycheck.replay.parts import Run, read_part
from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import work_of
from replaycheck.replay.store import groups_done
from replaycheck.replay.worker import one_thread
from replaycheck.say import Say
from replaycheck.schema.arm import Arm, Compiler, Effect, PoolDtype
from replaycheck.schema.floor import Condition, Floors
from replaycheck.schema.result import ArmResult, CellResult, Result
from replaycheck.schema.trace import Group
from replaycheck.stats.condition import DRAWS, Kind, classify, p_explained
from replaycheck.subjects.choose import LAB

from .condition import condition_of_turn
from .controls import with_changes

__all__ = ["POSITIONS", "condition_text", "worst_conditions"]


POSITIONS = 3
"""Turns of a cell that are looked at, the worst position of each: a turn replays its group under ten runs side by side."""

_KEY = ("trace", "branch", "turn", "position")

CauseOfWorst = Literal["small", "cuts", "ill-conditioned", "suspicious"]

LARGE = "p99"
"""A difference above this quantile of F_num needs an explanation: one position in a hundred of a legitimate run."""


@dataclass(frozen=True)
class _Place:
    dlogp: float
    trace: str
    branch: int
    turn: int
    position: int


def worst_conditions(
    settings: Settings, run: Run, result: Result, cells: Sequence[CellResult], say: Say = lambda line: None
) -> tuple[Condition, ...]:
    """Of each cell, the worst positions after a restore, of different turns, with their condition.

    Raises:
        UsageError: the subject isn't the lab, whose states alone can be perturbed, or no cell compares cold with warm.
    """
    if settings.subject != LAB:
        raise UsageError(f"only the lab's states can be perturbed, and the run's subject is {settings.subject}")
    wanted = [cell for cell in cells if cell.effect is Effect.TOTAL and not cell.vacuous]
    if not wanted:
        raise UsageError("no cell compares cold with warm (effect total) and restores; give a run with such a cell")
    one_thread()
    arms = {arm.name: arm for arm in result.arms}
    return tuple(
        condition
        for cell in wanted
        for condition in _of_cell(settings, run, cell, arms[cell.candidate], result.floor, say)
    )


def _of_cell(
    settings: Settings, run: Run, cell: CellResult, arm: ArmResult, floor: Floors | None, say: Say
) -> Iterator[Condition]:
    found = next(each for each in settings.arms if each.name == cell.candidate)
    noise = floor.num_for(arm.history, arm.tail, arm.answers, arm.policy) if floor else None
    large = noise.abs_dlogp.get(LARGE, 0.0) if noise else 0.0
    for place in _worst(run, cell.name):
        group = _group_of(settings, place.trace)
        say(f"perturbing the state that {place.trace} turn {place.turn} restored")
        key = place.trace, place.branch, place.turn
        turn = condition_of_turn(work_of(settings), group, found, key, DRAWS, settings.seed)
        at = int(np.searchsorted(turn.positions, place.position))
        condition, cuts = turn.condition[[at]], _cuts(run, found, cell, place)
        rest = np.array([place.dlogp - (cuts or 0.0)])
        yield Condition(
            cell=cell.name,
            group=group.group,
            trace=place.trace,
            branch=place.branch,
            turn=place.turn,
            position=place.position,
            dlogp=place.dlogp,
            cuts=cuts,
            condition=float(condition[0]),
            size=turn.size,
            draws=DRAWS,
            expected=float(condition[0] * turn.size),
            explained=float(p_explained(rest, condition, turn.size)[0]),
            kind=_kind(place.dlogp, cuts, str(classify(rest, condition, turn.size, 0.0)[0]), large),
        )


def _kind(dlogp: float, cuts: float | None, rest: str, large: float) -> CauseOfWorst:
    """``rest``: what the condition says of the difference without that of the cuts."""
    if abs(dlogp) <= large:
        return "small"
    if rest == Kind.SUSPICIOUS:
        return "suspicious"
    return "cuts" if cuts is not None and abs(cuts) > abs(dlogp - cuts) else "ill-conditioned"


def _cuts(run: Run, warm: Arm, cell: CellResult, place: _Place) -> float | None:
    """Δ log p of split against the cell's cold arm at a position, nat: split has warm's cuts and stores nothing."""
    split = with_changes(warm, compiler=Compiler.SPLIT, pool=PoolDtype.FP32, padding=None)
    said: dict[str, float] = {}
    for part in sorted(groups_done(run)):
        rows = read_part(run, "observations", part, ("arm", "experiment", *_KEY, "logprob"))
        at = pc.and_(pc.equal(rows["experiment"].cast("string"), "forced"), pc.equal(rows["position"], place.position))
        for name, value in (("branch", place.branch), ("turn", place.turn)):
            at = pc.and_(at, pc.equal(rows[name], value))
        for row in rows.filter(pc.and_(at, pc.equal(rows["trace"].cast("string"), place.trace))).to_pylist():
            said[row["arm"]] = row["logprob"]
    return said[split.name] - said[cell.reference] if split.name in said and cell.reference in said else None


def _worst(run: Run, cell: str) -> list[_Place]:
    """The largest |Δ log p| after a restore of the turns that have the largest."""
    best: dict[tuple[str, int, int], _Place] = {}
    for part in sorted(groups_done(run)):
        rows = read_part(run, "pairs", part)
        for place in _places(rows, cell):
            key = place.trace, place.branch, place.turn
            if key not in best or abs(place.dlogp) > abs(best[key].dlogp):
                best[key] = place
        kept = sorted(best.values(), key=lambda each: -abs(each.dlogp))[:POSITIONS]
        best = {(each.trace, each.branch, each.turn): each for each in kept}
    return list(best.values())


def _places(table: pa.Table, cell: str) -> Iterator[_Place]:
    """Positions of a cell's forced run after a restore that differ, in any order."""
    of_cell, experiment, trace = (names(table[name]) for name in ("cell", "experiment", "trace"))
    size = np.abs(floats(table["dlogp"]))
    restored = table["offset_from_restore"].is_valid().to_numpy(zero_copy_only=False)
    mine = (of_cell.code == of_cell.named(cell)) & (experiment.code == experiment.named("forced")) & restored
    branch, turn, position = (integers(table[name]) for name in ("branch", "turn", "position"))
    dlogp = floats(table["dlogp"])
    for row in np.flatnonzero(mine & (size > 0)):
        yield _Place(float(dlogp[row]), trace.of[trace.code[row]], int(branch[row]), int(turn[row]), int(position[row]))


def _group_of(settings: Settings, trace: str) -> Group:
    for group in settings.groups:
        if any(each.id == trace for each in group.traces):
            return group
    raise UsageError(f"no group of the suite has trace {trace!r}; was a trace file changed since the run?")


def condition_text(each: Condition) -> str:
    """One line of evidence."""
    cuts = "" if each.cuts is None else f", of it {each.cuts:.3g} by other cuts"
    said = {
        "small": "no larger than what F_num shows",
        "cuts": "other cuts alone do most of it",
        "ill-conditioned": "an ill-conditioned token: one rounding of the restored state explains it",
        "suspicious": "suspicious: one rounding of the restored state doesn't explain it",
    }[each.kind]
    return (
        f"{each.cell}, {each.trace}, branch {each.branch}, turn {each.turn}, position {each.position}: "
        f"Δ log p {each.dlogp:.3g} nat{cuts}; condition {each.condition:.3g} nat per unit, so one rounding "
        f"({each.size:.2g}) moves it by {each.expected:.2g} nat (p = {each.explained:.2g}, {each.draws} draws): {said}"
    )
