"""The probes of a run: stores, and our kernels against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.schema.result import ProbeResult
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.kda import KdaWeights
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.subjects.lab.pool import cast
from replaycheck.traces.tree import request_paths
from replaycheck_kernels.recipe import Recipe, preset
from replaycheck_kernels.registry import ours

from .double_rounding import Cast, probe_double_rounding
from .kernels import probe_kernel, regimes

Spoil = Callable[[Recipe], Recipe]


def real_states(network: Network, groups: Sequence[Group]) -> NDArray[np.float32]:
    """fp32 accumulators of every layer at the end of the longest prompt: [L, H, V, K]."""
    longest = max((path for group in groups for path in request_paths(group)), key=lambda path: path.prompt)
    with torch.no_grad():
        row = RowInput(longest.tokens[: longest.prompt], 0, "chunk", network.empty_state(), first_logit=longest.prompt)
        return network.forward([row])[0].final.temporal.to(torch.float32).numpy()


def state_probes(network: Network, groups: Sequence[Group], store: Cast = cast) -> tuple[ProbeResult, ...]:
    """Probes of state operations on a real model's states."""
    return (probe_double_rounding(real_states(network, groups), store),)


def learnt_decays(model: Path, recipe: str) -> list[tuple[Tensor, Tensor]]:
    """A_log [H] and dt_bias [H, K] of the model's first and last KDA layer."""
    network = Network(model, preset(recipe), {})
    found = [
        (layer.attention.A_log, layer.attention.dt_bias)
        for layer in network.weights.layers
        if isinstance(layer.attention, KdaWeights)
    ]
    return found[:: max(1, len(found) - 1)]


def kernel_probes(model: Path, recipe: str, seed: int, spoil: Spoil | None = None) -> Iterator[ProbeResult]:
    """Each kernel form under the exact recipe and the run's, over decay regimes, those learnt by the model included."""
    learnt = learnt_decays(model, recipe)
    for name in dict.fromkeys(("exact", recipe)):
        claimed = preset(name)
        for kernel in ours(claimed, "cpu").values():
            for regime in regimes(seed, learnt):
                yield probe_kernel(kernel, claimed, regime, seed, spoil(claimed) if spoil else None)
