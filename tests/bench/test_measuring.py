"""Turns of calls, entries into adapters, and what becomes of a kernel that fails."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from types import ModuleType

import pytest
import torch
from torch import Tensor

from replaycheck.bench.cases import Case
from replaycheck.bench.clock import WARM_UP, in_turn
from replaycheck.bench.entries import Entries, Entry
from replaycheck.bench.figures import figure, ratios
from replaycheck.bench.kernel_subjects import Subject, Subjects, split_specs
from replaycheck.bench.kernels import bench_kernels
from replaycheck.errors import InternalError
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.providers.shim import KernelModules
from replaycheck_kernels.recipe import Recipe

FIRST_TURN = 2 * (WARM_UP["cpu"] + 1)
"""Calls of a kernel in its first turn: with and without a snapshot, warm-up and one sample."""
SMALL = Case("small", "chunk", (70, 5), heads=1, key=16, value=16)


def test_calls_take_turns_after_each_was_warmed_up() -> None:
    order: list[str] = []
    times = in_turn([lambda: order.append("a"), lambda: order.append("b")], 3, "cpu")
    warm = WARM_UP["cpu"]
    assert order == ["a"] * warm + ["b"] * warm + ["a", "b"] * 3
    assert [len(each.samples) for each in times] == [3, 3]


def test_an_entry_hands_over_the_call_that_the_adapter_makes_and_changes_nothing() -> None:
    calls: list[tuple[int, int]] = []

    def engine(x: int, *, scale: int) -> int:
        calls.append((x, scale))
        return x * scale

    entry, answers = Entry(engine), list[object]()
    handed: list[object] = []
    entry.within(lambda: answers.append(entry(3, scale=7)), lambda call: handed.append((call(), call())))
    assert answers == [21] and handed == [(21, 21)] and calls == [(3, 7)] * 3
    assert entry(2, scale=2) == 4 and len(handed) == 1, "it is armed for one call"


def test_an_adapter_that_calls_something_else_is_our_bug() -> None:
    with pytest.raises(InternalError, match="doesn't call"):
        Entry(len).within(lambda: None, lambda call: None)


def test_entries_stand_in_the_modules_while_providers_load(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fla.ops.kda.chunk")
    vars(module)["chunk_kda"] = lambda x: x + 1
    entries, before = Entries(), list(KernelModules.after_load)
    with entries.installed():
        for hook in KernelModules.after_load[len(before) :]:
            hook({module.__name__: module})
    assert KernelModules.after_load == before
    assert vars(module)["chunk_kda"] is entries.of("fla/chunk_kda") and vars(module)["chunk_kda"](1) == 2
    with pytest.raises(InternalError, match="fused_recurrent_kda"):
        entries.of("fla/fused_recurrent_kda")
    assert entries.of("ours/chunk-emulator") is None


def test_our_own_entry_stands_where_our_adapter_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = ModuleType("launch")
    vars(launch)["chunk_forward"] = lambda: "o"
    monkeypatch.setitem(sys.modules, "replaycheck_kernels.triton.launch", launch)
    entry = Entries().of("ours/chunk-triton")
    assert entry is not None and vars(launch)["chunk_forward"] is entry


def _kernel(name: str, fails: bool = False) -> Subject:
    """The emulator under another name; ``fails``: in its second turn, when there are samples of the first."""
    calls = count()

    def forward(inputs: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        if next(calls) > FIRST_TURN and fails:
            raise RuntimeError("out of shared memory\nand more")
        return CHUNK_EMULATOR.forward(inputs, initial, rows, recipe)

    kernel = StateKernel(name, "chunk", frozenset(SnapshotSource), None, forward)
    return Subject(kernel, lambda inputs: "sglang", None)


def test_kernels_are_compared_with_the_slowest_and_with_themselves_without_a_snapshot() -> None:
    found = Subjects((_kernel("one"), _kernel("two")), {}, ("three: not there",))
    figures, targets, notes = bench_kernels(found, "cpu", 2, 0, cases=[SMALL])
    quantities = [(each.subject, each.quantity.partition(": ")[2]) for each in figures]
    assert ("one", "one snapshot a sequence") in quantities and ("two", "one snapshot a sequence") in quantities
    assert sum("speed, of" in quantity for _, quantity in quantities) == 1
    assert all(each.runs == 2 for each in figures)
    assert targets == () and notes == ("three: not there",), "times of a CPU have no target"


def test_a_kernel_that_fails_gets_a_note_and_no_figure() -> None:
    found = Subjects((_kernel("good"), _kernel("bad", fails=True)), {}, ())
    figures, _, notes = bench_kernels(found, "cpu", 2, 0, cases=[SMALL])
    assert {each.subject for each in figures} == {"good"}
    assert notes == ("bad, small: out of shared memory",)


def test_names_of_kernels_are_joined_or_repeated() -> None:
    assert split_specs(("ours,fla", "fla", " pkg.mod:factory ")) == ("ours", "fla", "pkg.mod:factory")
    assert split_specs(()) == ("ours",)


def test_a_figure_is_a_median_and_a_ratio_is_taken_turn_by_turn() -> None:
    found = figure("a", "time", "ms", [4.0, 1.0, 2.0])
    assert (found.median, found.lowest, found.highest, found.runs) == (2.0, 1.0, 4.0, 3)
    assert ratios([2.0, 9.0], [1.0, 3.0, 5.0]) == [2.0, 3.0]
    with pytest.raises(InternalError, match="nothing was measured"):
        figure("a", "time", "ms", [])


def test_inputs_of_a_case_are_bf16_values_with_decays_of_a_fresh_layer() -> None:
    from replaycheck.bench.cases import draw

    inputs, initial = draw(SMALL, "cpu", 0)
    assert torch.equal(inputs.q, inputs.q.bfloat16().float()) and inputs.offsets == (0, 70, 75)
    step = torch.nn.functional.softplus(inputs.dt_bias)
    assert step.min() >= 0.99e-3 and step.max() <= 0.101 and inputs.A_log.exp().min() >= 1
    assert initial.shape == (2, 1, 16, 16)
