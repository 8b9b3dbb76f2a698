"""Two real processes with gloo: the ranks of one process, bit for bit, with nothing but their own heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.state_probes.groups import chain
from replaycheck.subjects.lab.parallel import ParallelNetwork
from replaycheck.subjects.lab.parallel_processes import RankTask, run_ranks
from replaycheck_kernels.recipe import SGLANG
from replaycheck_kernels.registry import ours
from tests.lab.runs import run_arms, same_logits
from tests.schedule.trees import arm

GROUP = chain(70, 6, 30, 3)
ARMS = tuple(arm(compiler, pool=PoolDtype.BF16) for compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED))


def test_processes_have_the_bits_of_ranks_in_one_process(model: Path) -> None:
    first, second = run_ranks(RankTask(GROUP, ARMS, model, "sglang", 2))
    together = run_arms(ParallelNetwork(model, SGLANG, ours(SGLANG, "cpu")), GROUP, ARMS)
    for one, two, whole in zip(first, second, together, strict=True):
        assert same_logits(one, whole)
        assert same_logits(two, whole)
    assert first[0].proven_hits == second[0].proven_hits == together[0].proven_hits > 0
    for mine, other, whole_state in zip(first[0].restores, second[0].restores, together[0].restores, strict=True):
        assert mine.temporal.shape[1] == 1
        joined = np.concatenate([mine.temporal, other.temporal], 1)
        assert np.array_equal(joined.view(np.uint32), whole_state.temporal.view(np.uint32))
    assert same_logits(first[0], first[1])


def test_too_few_gpus_for_nccl_and_a_degree_that_does_not_divide_are_said_before_a_process_starts(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(EngineEnvironmentError, match="nccl wants a GPU a rank: 2 ranks, 1 GPUs"):
        run_ranks(RankTask(GROUP, ARMS, model, "sglang", 2, backend="nccl"))
    with pytest.raises(UsageError, match="degrees that fit: 1, 2"):
        run_ranks(RankTask(GROUP, ARMS, model, "sglang", 4))
