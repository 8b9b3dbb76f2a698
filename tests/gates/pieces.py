"""Arms, cells, floors and gates with no more in them than what a gate looks at, and the rest of a record left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replaycheck.gates.evidence import Evidence
from replaycheck.gates.tables import InMemory
from replaycheck.schema.arm import Answers, Compiler, Effect, Kernel, PoolDtype
from replaycheck.schema.estimate import Estimate
from replaycheck.schema.floor import Control, Floors, Measure
from replaycheck.schema.gate import Gate
from replaycheck.schema.result import ArmResult, AuditResult, CellResult, ProbeResult


def estimate(value: float | None, high: float | None = None, n: int = 9) -> Estimate:
    return Estimate(value=value, n=n, method="made up", low=None if high is None else 0.0, high=high)


def gate(**more: Any) -> Gate:
    facts = {"name": "mine", "metric": "worst-trace", "why": "a test", "admitted_by": "restore-late", "min_traces": 1}
    return Gate(**facts | ({} if "floor" in more else {"bound": 1.0}) | more)


def arm(name: str, **more: Any) -> ArmResult:
    facts = {"compiler": Compiler.WARM, "history": Kernel.CHUNK, "tail": Kernel.CHUNK, "answers": Answers.PREFILLED}
    facts |= {"pool": PoolDtype.FP32, "policy": "p", "kernels": {}, "expected_hits": 4, "proven_hits": 4}
    return ArmResult.model_construct(**{"name": name, "label_mismatches": 0, "content_mismatches": 0} | facts | more)


def cell(name: str = "state/x", effect: Effect = Effect.STATE, **more: Any) -> CellResult:
    facts: dict[str, Any] = {"reference": "split", "candidate": "warm", "traces": 4, "positions": 48, "restores": 8}
    facts |= {"bits_differ": 0, "not_finite": 0, "missing": 0, "unsized": 0, "unsized_flips": 0, "abs_dlogp": {}}
    facts |= {"restore_max_error": None, "vacuous": False, "why_vacuous": ""}
    return CellResult.model_construct(**{"name": name, "effect": effect} | facts | more)


def measure(control: Control = Control.SPLIT, **more: Any) -> Measure:
    facts: dict[str, Any] = {"reference": "cold", "candidate": "split", "history": Kernel.CHUNK, "tail": Kernel.CHUNK}
    facts |= {"answers": Answers.PREFILLED, "pool": PoolDtype.FP32, "policy": "p", "traces": 4, "positions": 48}
    facts |= {"bits_differ": 12, "not_finite": 0, "spread": estimate(0.5), "spread_max": 0.75, "trace_spread": {}}
    facts |= {"worst_trace_abs_dlogp": estimate(0.25), "window_abs_dlogp": estimate(0.125), "abs_dlogp": {"max": 1.0}}
    return Measure.model_construct(**{"control": control} | facts | more)


def probe(name: str, **values: float | int | str | None) -> ProbeResult:
    return ProbeResult(name=name, verdict="pass", sentence="", values=values)


def evidence(
    cells: Sequence[CellResult] = (),
    measures: Sequence[Measure] = (),
    arms: Sequence[ArmResult] = (),
    audits: Sequence[AuditResult] = (),
    probes: Sequence[ProbeResult] = (),
    **more: Any,
) -> Evidence:
    """Of four traces; with arms of every name that the cells use."""
    named = {each.name for each in arms}
    used = dict.fromkeys(name for each in cells for name in (each.reference, each.candidate) if name not in named)
    floor = Floors.model_construct(origin="own", measures=tuple(measures), not_measured=()) if measures else None
    made = (*arms, *(arm(name) for name in used))
    facts: dict[str, Any] = {"conv": (), "tables": InMemory()} | more
    return Evidence(made, tuple(cells), tuple(probes), tuple(audits), traces=4, floor=floor, **facts)
