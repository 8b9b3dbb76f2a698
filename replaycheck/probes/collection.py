"""The probes of a run: stores, and the run's kernels against the oracle."""

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
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.subjects.lab.pool import cast
from replaycheck.traces.tree import request_paths
from replaycheck_kernels.recipe import Recipe, preset

from .double_rounding import Cast, probe_double_rounding
from .kernels import probe_kernel, regimes

Spoil = Callable[[Recipe], Recipe]


def real_states(network: Network, groups: Sequence[Group]) -> NDArray[np.float32]:
    """fp32 accumulators of every layer at the end of the longest prompt: [L, H, V, K]."""
    longest = max((path for group in groups for path in request_paths(group)), key=lambda path: path.prompt)
    with torch.no_grad():
        row = RowInput(longest.tokens[: longest.prompt], 0, "chunk", network.empty_state(), first_logit=longest.prompt)
        return network.forward([row])[0].final.temporal.to(torch.float32).cpu().numpy()


def state_probes(network: Network, groups: Sequence[Group], store: Cast = cast) -> tuple[ProbeResult, ...]:
    """Probes of state operations on a real model's states."""

    def on_device(state: Tensor, dtype: torch.dtype) -> Tensor:
        return store(state.to(network.device), dtype).cpu()

    return (probe_double_rounding(real_states(network, groups), on_device),)


def learnt_decays(model: Path, recipe: str) -> list[tuple[Tensor, Tensor]]:
    """A_log [H] and dt_bias [H, K] of the model's first and last KDA layer."""
    network = Network(model, preset(recipe), {})
    found = [
        (layer.attention.A_log, layer.attention.dt_bias)
        for layer in network.weights.layers
        if isinstance(layer.attention, KdaWeights)
    ]
    return found[:: max(1, len(found) - 1)]


def kernel_probes(
    model: Path, recipe: str, choice: KernelChoice, seed: int, spoil: Spoil | None = None
) -> Iterator[ProbeResult]:
    """Each kernel form under the run's recipe, over decay regimes, those learnt by the model included.

    Ours on the CPU run under ``exact``, too, where only fp32 rounds.
    """
    learnt = learnt_decays(model, recipe)
    names = ("exact", recipe) if choice == KernelChoice() else (recipe,)
    for name in dict.fromkeys(names):
        claimed = preset(name)
        run_as = spoil(claimed) if spoil else claimed
        for kernel in lab_kernels(choice, run_as).kernels().values():
            for regime in regimes(seed, learnt):
                yield probe_kernel(kernel, claimed, regime, seed, run_as, choice.device)
