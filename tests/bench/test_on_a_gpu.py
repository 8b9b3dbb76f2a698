"""What happens on a GPU, with the GPU's functions replaced: order of work, and figures and targets from given times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from replaycheck.bench import clock, kernels
from replaycheck.bench.cases import Case, draw
from replaycheck.bench.ceilings import Ceilings
from replaycheck.bench.clock import Times
from replaycheck.bench.floors import call_bytes, chunk_flops
from replaycheck.bench.kernel_subjects import Subject, Subjects
from replaycheck.bench.profile import Profile
from replaycheck.bench.whole import profile_figures
from replaycheck.schema.bench import Figure, Target
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotSource, StateKernel

COPY, MATMUL = 4.0e12, 8.0e14
CHUNK = Case("chunk case", "chunk", (130,), heads=2, key=16, value=16)
DECODE = Case("decode case", "recurrent", (1, 1), heads=2, key=16, value=16)


class _Event:
    """An event that takes the time of a counter."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = _Event.now

    def elapsed_time(self, other: _Event) -> float:
        return other.at - self.at


def test_each_timed_call_follows_a_spin_and_a_read_that_empties_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Cache:
        def sum(self) -> None:
            order.append("flush")

    def call(name: str, milliseconds: float) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            _Event.now += milliseconds

        return run

    monkeypatch.setattr(torch, "zeros", lambda *_, **__: Cache())
    monkeypatch.setattr(torch.cuda, "Event", _Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("wait"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: order.append("spin"))
    times = clock.in_turn([call("a", 2.0), call("b", 5.0)], 2, "cuda")
    assert [each.samples for each in times] == [(0.002, 0.002), (0.005, 0.005)]
    turn = ["spin", "flush", "a", "flush", "b", "wait"]
    assert order[-13:] == ["spin", *turn, *turn]


def _subject(name: str, form: str, sources: frozenset[SnapshotSource]) -> Subject:
    def never(*_: Any) -> KdaOutput:
        raise AssertionError("times are given")

    return Subject(StateKernel(name, form, sources, None, never), lambda inputs: "sglang", None)


def _measured(
    monkeypatch: pytest.MonkeyPatch, subjects: Sequence[Subject], seconds: dict[str, list[float]]
) -> tuple[dict[tuple[str, str], Figure], dict[str, Target]]:
    """Figures and targets where the calls of each kernel take the given seconds, without and with a snapshot."""

    def given(calls: Sequence[Any], runs: int, device: str) -> list[Times]:
        name = calls[0].func.name
        return [Times((seconds[name][i],) * runs, 1e-4) for i in range(len(calls))]

    def on_cpu(case: Case, device: str, seed: int) -> tuple[KdaInputs, torch.Tensor]:
        return draw(case, "cpu", seed)

    monkeypatch.setattr(kernels, "in_turn", given)
    monkeypatch.setattr(kernels, "draw", on_cpu)
    monkeypatch.setattr(kernels, "measure", lambda seed: Ceilings((COPY,), (MATMUL,)))
    found = Subjects(tuple(subjects), {}, ())
    figures, targets, notes = kernels.bench_kernels(found, "cuda", 4, 0, cases=[CHUNK, DECODE])
    assert notes == ()
    return {(each.subject, each.quantity): each for each in figures}, {each.name: each for each in targets}


def test_figures_and_targets_of_given_times(monkeypatch: pytest.MonkeyPatch) -> None:
    every, final = frozenset(SnapshotSource), frozenset({SnapshotSource.FINAL})
    moved = call_bytes(DECODE.shape()) / COPY
    subjects = [
        _subject("ours/chunk-triton", "chunk", every),
        _subject("fla/chunk_kda", "chunk", final),
        _subject("ours/recurrent-triton", "recurrent", every),
    ]
    times = {
        "ours/chunk-triton": [1e-3, 1.05e-3],
        "fla/chunk_kda": [0.8e-3],
        "ours/recurrent-triton": [moved / 0.9],
    }
    figures, targets = _measured(monkeypatch, subjects, times)
    ours = "ours/chunk-triton"
    assert figures[ours, "chunk case: time"].median == pytest.approx(1.0)
    floors = {
        each.quantity: each.median for each in figures.values() if "floor" in each.quantity and each.subject == ours
    }
    by_bytes, by_flops = (next(v for q, v in floors.items() if kind in q) for kind in ("bytes", "FLOP"))
    assert by_bytes == pytest.approx(1e-3 / (call_bytes(CHUNK.shape()) / COPY))
    assert by_flops == pytest.approx(1e-3 / (chunk_flops(CHUNK.shape()) / MATMUL))
    verdicts = {name: (target.found, target.met) for name, target in targets.items()}
    assert verdicts == {
        "ours/chunk-triton, chunk case, cost of one snapshot a sequence": (pytest.approx(5.0), False),
        "ours/chunk-triton, chunk case, speed of fla/chunk_kda": (pytest.approx(0.8), False),
        "ours/recurrent-triton, decode case, share of the copy bandwidth": (pytest.approx(90.0), True),
    }
    assert ("fla/chunk_kda", "chunk case: one snapshot a sequence") not in figures


def test_the_share_in_kernels_is_of_the_time_without_a_profiler() -> None:
    found = Profile(wall=2.0, profiled=5.0, kernels=1.5, copies=0.1, launches=9, host=(), host_wall=3.0)
    figures, targets = profile_figures("quick", found)
    assert (targets[0].found, targets[0].met) == (75.0, True)
    assert {each.quantity: each.median for each in figures}["wall time under torch's profiler"] == 5.0
