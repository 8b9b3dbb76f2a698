"""The bound of a gate in one cell: a constant, or a factor times the floor that holds for the cell's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from replaycheck.schema.floor import FloorKind, Floors, Measure
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import ArmResult, CellResult

from .evidence import Evidence

__all__ = ["NAMES", "Bound", "bound_in", "floor_of", "missing", "told"]

NAMES = {FloorKind.RUN: "F_run", FloorKind.NUM: "F_num", FloorKind.RND: "F_rnd"}


@dataclass(frozen=True)
class Bound:
    """value: None if the floor wasn't measured. derivation: the arithmetic, or what is missing and what to do.

    traces: those that F_num or F_rnd was measured on; None for a constant, and for F_run, which is 0 or known.
    """

    value: float | None
    derivation: str
    traces: int | None = None

    def broken_by(self, value: float) -> bool:
        """Whether a value lies above it; nothing breaks a bound that isn't known."""
        return self.value is not None and value > self.value

    def share(self, value: float) -> float:
        """How much of the bound a value takes; of a bound of 0 any value takes infinitely much."""
        if value <= 0:
            return 0.0
        return value / self.value if self.value else inf


def bound_in(
    evidence: Evidence, gate: Gate, cell: CellResult, read: Callable[[Measure], float | None], what: str
) -> Bound:
    """The gate's bound for a cell. ``read`` takes the floor's number from a measure; ``what`` says which number."""
    if gate.floor is None or gate.factor is None:
        return Bound(gate.bound, f"the constant {gate.bound:g}")
    measure = floor_of(evidence, gate.floor, cell)
    value = None if measure is None else read(measure)
    if measure is None or value is None:
        return missing(gate.floor, cell)
    name = NAMES[gate.floor]
    derivation = f"{gate.factor:g} × {name}; {name} is {value:.3g}, {what} ({told(measure)})"
    return Bound(gate.factor * value, derivation, None if gate.floor is FloorKind.RUN else measure.traces)


def missing(kind: FloorKind, cell: CellResult) -> Bound:
    """No bound, for want of a floor."""
    return Bound(
        None, f"no {NAMES[kind]} was measured for {cell.name}; give --floor FILE, or a suite with its controls"
    )


def told(measure: Measure) -> str:
    """Where a floor comes from."""
    return f"{measure.control}: {measure.candidate} against {measure.reference}, {measure.traces} traces"


def floor_of(evidence: Evidence, kind: FloorKind, cell: CellResult) -> Measure | None:
    """The measure that holds for a cell; of F_run, which every arm of a subject shares, the one with most differences."""
    if evidence.floor is None:
        return None
    return _measure(evidence.floor, kind, evidence.arm[cell.candidate])


def _measure(floors: Floors, kind: FloorKind, arm: ArmResult) -> Measure | None:
    if kind is FloorKind.RUN:
        return max(floors.of(kind), key=lambda each: each.bits_differ / each.positions, default=None)
    where = arm.history, arm.tail, arm.answers, arm.policy
    return floors.num_for(*where) if kind is FloorKind.NUM else floors.rnd_for(*where, arm.pool)
