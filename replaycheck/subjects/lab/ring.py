"""The raw inputs that a lagging state lacks (ReplaySSM): pushed window by window, run again in order from the state.

A ring of the engine is memory with cursors (:mod:`replaycheck_kernels.speculation.ring`). What it holds when is plan data,
so here each push makes a new sequence, which slots may share as they share every other tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, StateKernel
from replaycheck_kernels.recipe import Recipe
from replaycheck_kernels.speculation.window import PER_TOKEN, take

__all__ = ["pushed", "replayed"]


def pushed(pending: KdaInputs | None, inputs: KdaInputs, row: int, kept: int) -> KdaInputs:
    """What is pending, then the first ``kept`` tokens of a row, as one sequence of one layer."""
    first = inputs.offsets[row]
    fresh = take(inputs, torch.arange(first, first + kept, device=inputs.k.device), [kept])
    return fresh if pending is None else _joined([pending, fresh], [pending.offsets[-1] + kept])


def replayed(checkpoints: Tensor, pending: Sequence[KdaInputs | None], kernel: StateKernel, recipe: Recipe) -> Tensor:
    """The live states of one layer: each checkpoint [R, HV, V, K] followed by its pending tokens; nothing is written.

    Args:
        kernel: the recurrent form, which is what decoding ran: the same bits.
    """
    behind = [row for row, tokens in enumerate(pending) if tokens is not None]
    if not behind:
        return checkpoints
    sequences = [tokens for tokens in pending if tokens is not None]
    inputs = _joined(sequences, [tokens.offsets[-1] for tokens in sequences])
    live = checkpoints.clone()
    live[behind] = kernel(inputs, checkpoints[behind], (), recipe).final.to(live.dtype)
    return live


def _joined(parts: Sequence[KdaInputs], lengths: Sequence[int]) -> KdaInputs:
    """Tokens one after the other, as sequences of these lengths."""
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    tokens: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in PER_TOKEN}
    return replace(parts[0], **tokens, offsets=tuple(offsets), starts=())
