"""Run the lab once over a trace and keep what its KDA layers get, through a kernel that keeps its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.traces.tree import request_paths
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow
from replaycheck_kernels.recipe import Recipe, preset

from .recording import Recording

RECIPE = "sglang"
"""bf16 activations, which every recipe's activation dtype holds exactly."""
TOKENS = 640
"""Of the trace: more than the usual pack (323) and a restored sequence (258) need; longer cases begin again."""


def record(model: Path, groups: Sequence[Group], tokens: int = TOKENS) -> Recording:
    """Run the lab over the beginning of the longest prompt and keep what its first and its last KDA layer got."""
    calls: list[tuple[KdaInputs, KdaOutput]] = []

    def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        calls.append((x, CHUNK_EMULATOR(x, initial, rows, recipe)))
        return calls[-1][1]

    network = Network(
        model, preset(RECIPE), {"chunk": replace(CHUNK_EMULATOR, name="recording/chunk", forward=forward)}
    )
    longest = max((path for group in groups for path in request_paths(group)), key=lambda path: path.prompt)
    text = longest.tokens[: min(longest.prompt, tokens)]
    with torch.no_grad():
        network.forward([RowInput(text, 0, "chunk", network.empty_state(), first_logit=len(text))])
    return _beside([calls[i] for i in dict.fromkeys((0, len(calls) - 1))])


def _beside(layers: Sequence[tuple[KdaInputs, KdaOutput]]) -> Recording:
    inputs = [x for x, _ in layers]
    over_tokens = {name: torch.cat([getattr(x, name) for x in inputs], 1) for name in ("q", "k", "v", "a", "b")}
    heads = {name: torch.cat([getattr(x, name) for x in inputs]).float() for name in ("A_log", "dt_bias")}
    return Recording(**over_tokens, **heads, state=torch.cat([output.final[0] for _, output in layers]))
