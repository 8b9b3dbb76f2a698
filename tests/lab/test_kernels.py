"""Whose kernels the lab runs, and what is said about the cells that they can't do."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
import torch

from replaycheck.errors import UsageError
from replaycheck.replay.possible import possible
from replaycheck.replay.settings import resolve
from replaycheck.schema.suite import Suite, expand
from replaycheck.subjects.lab.kernels import KernelChoice, claimed_recipe, lab_kernels
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource
from replaycheck_kernels.recipe import EXACT, FLA, VLLM

LIMITED = KernelChoice("tests.lab.limited_kernels:factory")
SIZED = KernelChoice("tests.lab.limited_kernels:sized")


def suite(**matrix: object) -> Suite:
    base = {"history": ["chunk", "recurrent"], "tail": ["chunk"], "pool": ["fp32", "fp16"], "answers": ["prefilled"]}
    each = {**base, "policy": {"every": 64}, **matrix}
    return Suite.model_validate({"schema": "replaycheck.suite/1", "name": "s", "traces": ["x"], "matrix": [each]})


def test_a_provider_brings_its_recipe_and_ours_the_suites() -> None:
    assert claimed_recipe(LIMITED) == "vllm"
    assert claimed_recipe(KernelChoice()) is None


def test_an_impossible_cell_is_left_out_with_its_reason() -> None:
    kernels = lab_kernels(LIMITED, VLLM)
    assert kernels.label == "limited 2.0"
    assert kernels.warning == "limited 2.0 is untested; tested: 1.0"
    found = possible(*expand(suite()), kernels, named=False)
    assert {cell.candidate.split("/")[1] for cell in found.cells} == {"recurrent-chunk"}
    assert not any(arm.pool == "fp16" for arm in found.arms)
    lines = dict(line.split(": ") for line in found.not_checked)
    assert lines["exact/chunk-chunk/prefilled/grid64/fp32"] == "limited/chunk has no fp32 snapshot inside a call"
    assert lines["exact/recurrent-chunk/prefilled/grid64/fp16"] == "limited/recurrent has no fp16 pool"
    assert len(found.cells) + len(found.not_checked) == len(expand(suite())[1])


def test_checkpoints_at_the_end_of_a_call_need_no_snapshot_inside() -> None:
    asked = suite(history=["chunk"], pool=["fp32", "bf16"], policy={"prompt_end": True})
    assert not possible(*expand(asked), lab_kernels(LIMITED, VLLM), named=True).not_checked


def test_an_impossible_cell_that_the_user_named_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"limited 2.0 can't do grid/chunk-chunk/.*: limited/chunk has no fp32 snap"):
        possible(*expand(suite()), lab_kernels(LIMITED, VLLM), named=True)


def test_nothing_possible_is_an_error_even_in_a_preset() -> None:
    with pytest.raises(UsageError, match="and 3 more cells; take them out"):
        possible(*expand(suite(history=["chunk"], pool=["fp16"])), lab_kernels(LIMITED, VLLM), named=False)


def test_ours_can_do_every_cell() -> None:
    arms, cells = expand(suite())
    assert possible(arms, cells, lab_kernels(KernelChoice(), EXACT), named=True).cells == cells


def test_a_compiled_kernel_runs_its_recipe_only_and_no_fault_in_it() -> None:
    with pytest.raises(UsageError, match="limited/chunk doesn't run recipe 'fla'; it runs vllm"):
        lab_kernels(LIMITED, FLA)
    with pytest.raises(UsageError, match="a fault in the arithmetic can't enter limited/chunk; plant it with"):
        lab_kernels(LIMITED, replace(VLLM, beta_site="nowhere"))


def test_a_recipe_fault_on_a_providers_kernels_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="can't enter limited/chunk"):
        resolve(faults=("beta-raw",), kernels=LIMITED, admitted=False)


def test_a_provider_without_a_chunk_kernel_is_refused() -> None:
    with pytest.raises(
        UsageError, match="has no chunk kernel for kda on cpu; it has fake/recurrent; try --device cuda"
    ):
        lab_kernels(KernelChoice("tests.providers.fake_kernels:factory"), EXACT)


def test_a_kernel_that_computes_by_the_size_of_its_launch_gets_one_sequence_a_call() -> None:
    """With snapshots out of order, and none for one sequence."""
    lengths = (70, 3, 130)
    draws = torch.Generator().manual_seed(0)
    q, k, v, a = (torch.randn(sum(lengths), 2, 8, generator=draws) for _ in range(4))
    b, bias = torch.randn(sum(lengths), 2, generator=draws), torch.zeros(2, 8)
    x = KdaInputs(q, k, v, a, b, torch.zeros(2), bias, (0, *accumulate(lengths)))
    initial = torch.randn(3, 2, 8, 8, generator=draws)
    rows = [
        SnapshotRow(2, 2, -1, SnapshotSource.ACCUMULATOR),
        SnapshotRow(0, 1, -1, SnapshotSource.ACCUMULATOR),
        SnapshotRow(2, 1, -1, SnapshotSource.ACCUMULATOR),
    ]
    chunk = lab_kernels(SIZED, VLLM).forms["chunk"].kernel
    found, expected = chunk(x, initial, rows, VLLM), CHUNK_EMULATOR(x, initial, rows, VLLM)
    for part in ("o", "final", "snapshots"):
        assert torch.equal(getattr(found, part), getattr(expected, part)), part
    assert chunk(x, initial, (), VLLM).snapshots.shape == (0, 2, 8, 8)


def test_a_missing_folder_of_kernels_is_said(tmp_path: Path) -> None:
    from replaycheck.errors import EngineEnvironmentError

    with pytest.raises(EngineEnvironmentError, match="fla"):
        lab_kernels(KernelChoice("fla", tmp_path), FLA)
