"""Engines' caches and state operations on tensors: warm equals split-rounded bit for bit, whatever the plan did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replaycheck.faults.ownership import fork_from_a_sibling
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy
from replaycheck.state_probes.groups import GROUPS
from replaycheck.state_probes.policies import EXTRA_BUFFER, NO_BUFFER, arm_of
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.network import Network
from tests.lab.runs import run_arms, same_logits, same_restores

SMALL: dict[str, Policy] = {
    policy.slug: policy
    for policy in (
        SglangPolicy(cache=NO_BUFFER, capacity=4),
        SglangPolicy(cache=EXTRA_BUFFER, track_interval=64, budget=90),
        VllmPolicy(cache="vllm-none", budget=50),
        VllmPolicy(cache="vllm-align", block=32, tail=16, retain="all"),
    )
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("policy", SMALL)
def test_warm_equals_split_rounded_bit_for_bit(sglang: Network, policy: str, name: str) -> None:
    pairs = [
        arm_of(compiler, SMALL[policy], pool=pool)
        for pool in (PoolDtype.FP32, PoolDtype.BF16)
        for compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED)
    ]
    found = run_arms(sglang, GROUPS[name], pairs)
    for warm, rounded in zip(found[::2], found[1::2], strict=True):
        assert warm.expected_hits == warm.proven_hits == len(warm.restores)
        assert same_logits(warm, rounded)
        assert same_restores(warm, rounded)
        assert warm.label_mismatches == 0
        assert all(np.isfinite(turn.logits).all() for turn in warm.turns)


def test_a_fork_from_a_siblings_slot_shows_in_the_bits_and_in_the_labels(sglang: Network) -> None:
    right = compile_schedule(GROUPS["beam"], arm_of(Compiler.WARM, SMALL["vllm-none+budget50"]))
    wrong = replace(right, steps=tuple(fork_from_a_sibling(list(right.steps))))
    sglang.arena = sglang.new_arena()
    good, bad = execute([ArmRun(right, sglang)])[0], execute([ArmRun(wrong, sglang)])[0]
    assert (good.label_mismatches, bad.label_mismatches) == (0, 1)
    differ = [
        not np.array_equal(a.logits.view(np.uint32), b.logits.view(np.uint32))
        for a, b in zip(good.turns, bad.turns, strict=True)
    ]
    assert differ == [False, False, False, False, False, True]
