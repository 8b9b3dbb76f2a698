"""Policies of every kind, small enough that short prompts reach their boundaries, and arms that use them."""

from __future__ import annotations

from typing import Final

from replaycheck.schema.arm import Answers, Arm, CheckpointPolicy, Compiler, Kernel, PoolDtype
from replaycheck.schema.policy import Policy, SglangPolicy, VllmPolicy

__all__ = ["EXTRA_BUFFER", "NO_BUFFER", "PIPELINED", "PLAYED", "POLICIES", "arm_of"]

NO_BUFFER: Final = "sglang-no-buffer"
EXTRA_BUFFER: Final = "sglang-extra-buffer"

PIPELINED: tuple[Policy, ...] = (
    CheckpointPolicy(every=64, prompt_end=True, budget=100, pipeline=2),
    SglangPolicy(cache=EXTRA_BUFFER, track_interval=64, budget=100, pipeline=2),
    VllmPolicy(cache="vllm-align", block=32, tail=16, retain="all", budget=100, pipeline=2),
)
"""Two steps in flight. The budget is the prompt of the group of twins."""

POLICIES: dict[str, Policy] = {
    policy.slug: policy
    for policy in (
        CheckpointPolicy(every=64, turn_end=True),
        CheckpointPolicy(every=64, prompt_end=True, turn_end=True, capacity=3, budget=50),
        SglangPolicy(cache=NO_BUFFER),
        SglangPolicy(cache=NO_BUFFER, capacity=2, budget=33),
        SglangPolicy(cache=EXTRA_BUFFER, track_interval=64),
        SglangPolicy(cache=EXTRA_BUFFER, track_interval=64, capacity=2),
        SglangPolicy(cache=EXTRA_BUFFER, page=16, track_interval=64, budget=100),
        SglangPolicy(cache=EXTRA_BUFFER, page=128, track_interval=128, capacity=4),
        VllmPolicy(cache="vllm-none", budget=70),
        VllmPolicy(cache="vllm-align", block=64),
        VllmPolicy(cache="vllm-align", block=64, tail=16, retain="all", capacity=3),
        VllmPolicy(cache="vllm-align", block=32, tail=8, retain=64, budget=41),
        VllmPolicy(cache="vllm-align", block=64, retain="all", budget=24),
        SglangPolicy(cache=EXTRA_BUFFER, page=16, track_interval=64, capacity=2, pipeline=2),
        *PIPELINED,
    )
}

PLAYED: tuple[Policy, ...] = (
    CheckpointPolicy(every=64, turn_end=True, capacity=6),
    SglangPolicy(cache=NO_BUFFER, capacity=4),
    SglangPolicy(cache=EXTRA_BUFFER, track_interval=64, budget=90),
    VllmPolicy(cache="vllm-none", budget=50),
    VllmPolicy(cache="vllm-align", block=32, tail=16, retain="all"),
)
"""One of each kind, with a capacity or a budget: what is played on pools and run through the lab."""


def arm_of(
    compiler: Compiler,
    policy: Policy,
    kernels: tuple[Kernel, Kernel] = (Kernel.CHUNK, Kernel.CHUNK),
    pool: PoolDtype = PoolDtype.FP32,
) -> Arm:
    """An arm with that policy; answers enter a state as the policy keeps them."""
    answers = Answers.DECODED if policy.keeps_answers else Answers.PREFILLED
    return Arm(
        compiler=compiler,
        history=kernels[0],
        tail=kernels[1],
        answers=answers,
        pool=pool,
        policy=policy,
        recipe="exact",
    )
