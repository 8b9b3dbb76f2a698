"""What junit.xml, summary.md and annotations say of a gate's result: its numbers in a line, and which is worst."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from replaycheck.schema.estimate import Estimate
from replaycheck.schema.result import GateResult

from .text import number

__all__ = ["by_weight", "numbers", "span"]

_ORDER = ("fail", "vacuous", "inconclusive", "waived", "not-judged", "pass")


def by_weight(gates: Iterable[GateResult]) -> list[GateResult]:
    """The worst first: failures before what proves nothing, and of those the value that is furthest over its bound."""
    return sorted(gates, key=lambda gate: (_ORDER.index(gate.verdict), -_excess(gate)))


def _excess(gate: GateResult) -> float:
    """How often the bound goes into the value; any value over a bound of 0 is infinitely far off."""
    value = gate.value.value
    if value is None or gate.bound is None:
        return 0.0
    return value / gate.bound if gate.bound > 0 else (inf if value > gate.bound else 0.0)


def span(value: Estimate) -> str:
    """The interval in brackets, or nothing: ``[0.1, 0.4]``."""
    return "" if value.low is None or value.high is None else f"[{number(value.low)}, {number(value.high)}]"


def numbers(gate: GateResult) -> str:
    """Everything that the verdict rests on: ``Value 3 (n = 6, count), bound 0. A bound of 3 would have passed.``"""
    return " ".join(f"{sentence}." for sentence in _sentences(gate))


def _sentences(gate: GateResult) -> Iterator[str]:
    value = gate.value
    shown = " ".join(filter(None, (number(value.value), span(value))))
    derived = f" ({gate.derivation})" if gate.derivation else ""
    yield f"Value {shown} (n = {value.n:,}, {value.method}), bound {number(gate.bound)}{derived}"
    if gate.passing_bound is not None:
        yield f"A bound of {number(gate.passing_bound)} would have passed"
    if gate.fault_value is not None:
        apart = "" if gate.separation is None else f", {number(gate.separation)} times the bound"
        yield f"With the fault {gate.fault} planted it was {number(gate.fault_value)}{apart}"
    if gate.power is not None:
        yield f"Power {number(gate.power)}{f' ({gate.power_of})' if gate.power_of else ''}"
    if gate.traces_needed is not None:
        yield f"It needs {number(gate.traces_needed)} traces to decide"
