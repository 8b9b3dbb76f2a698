"""The nearest state of the float64 oracle: whose tokens, which position, transposed or with heads in another order?

One pass over each line of tokens computes the first layer's state after every token and its distance from the state in
question. Nothing is kept, so a line costs time and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, StateKernel
from replaycheck_kernels.oracle import ORACLE_KERNEL, prepared, step
from replaycheck_kernels.recipe import Recipe

__all__ = ["Nearest", "leading_layers", "nearest", "truncated"]


@dataclass(frozen=True)
class Nearest:
    """line: the name of its tokens. distance: relative to the state's size, over heads. Of all lines the least.

    order: head h of the state in question is head order[h] of the oracle's.
    """

    line: str
    position: int
    distance: float
    transposed: bool = False
    order: tuple[int, ...] = ()

    @property
    def permuted(self) -> bool:
        return self.order != tuple(sorted(self.order))


def leading_layers(network: Network) -> int:
    """Recurrent layers before the first of another kind."""
    kinds = network.config.layer_kinds
    return next((i for i, kind in enumerate(kinds) if kind != "kda"), len(kinds))


def truncated(network: Network, layers: int) -> Network:
    """The first so many layers of a network, sharing its weights."""
    short = copy(network)
    short.config = replace(network.config, layer_kinds=network.config.layer_kinds[:layers])
    short.weights = replace(network.weights, layers=network.weights.layers[:layers])
    short.arena = short.new_arena()
    return short


def nearest(network: Network, state: NDArray[np.float32], lines: Mapping[str, Sequence[int]]) -> list[Nearest]:
    """The best match of each line, best first; empty if the first layer isn't recurrent.

    Args:
        state: [H, V, K] of the first layer. lines: token ids by name.
    """
    if not leading_layers(network):
        return []
    wanted = torch.from_numpy(np.nan_to_num(state.astype(np.float64)))
    found = [min(_matches(network, wanted, name, tokens), key=lambda n: n.distance) for name, tokens in lines.items()]
    return sorted(found, key=lambda match: match.distance)


def _matches(network: Network, wanted: Tensor, line: str, tokens: Sequence[int]) -> Iterator[Nearest]:
    size = float(wanted.norm()) or 1.0
    square = wanted.shape[1] == wanted.shape[2]
    for position, state in enumerate(_states(network, tokens)):
        yield _match(line, position, state, wanted, size, transposed=False)
        if square:
            yield _match(line, position, state.transpose(1, 2), wanted, size, transposed=True)


def _match(line: str, position: int, state: Tensor, wanted: Tensor, size: float, transposed: bool) -> Nearest:
    """Heads are matched greedily; where the given order is as good as any, it is taken."""
    apart = (wanted[:, None] - state[None]).flatten(2).norm(dim=2)
    straight = apart.diagonal().norm()
    order = apart.argmin(1)
    other = apart.gather(1, order[:, None]).norm()
    distinct = len(set(order.tolist())) == len(order)
    if distinct and float(other) < 0.5 * float(straight):
        return Nearest(line, position, float(other) / size, transposed, tuple(order.tolist()))
    return Nearest(line, position, float(straight) / size, transposed, tuple(range(len(order))))


@torch.no_grad()
def _states(network: Network, tokens: Sequence[int]) -> Iterator[Tensor]:
    """The first layer's state [H, V, K] in float64 after 0, 1, … tokens, on the recipe's own inputs."""
    inputs = _inputs(network, tokens)
    q, k, v, beta, g = prepared(inputs)
    state = torch.zeros(v.shape[1], v.shape[2], k.shape[2], dtype=torch.float64)
    yield state
    for t in range(len(tokens)):
        state, _ = step(state, q[t], k[t], v[t], g[t], beta[t])
        yield state


def _inputs(network: Network, tokens: Sequence[int]) -> KdaInputs:
    """What the first layer's kernel gets."""
    caught: list[KdaInputs] = []

    def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        caught.append(x.to("cpu"))
        return KdaOutput(torch.zeros_like(x.v), initial, initial[:0])

    kernel: StateKernel = replace(ORACLE_KERNEL, forward=forward)
    short = truncated(network, 1)
    short.kernels = dict.fromkeys(network.kernels, kernel)
    short.forward([RowInput(tuple(tokens), 0, "recurrent", short.empty_state(), first_logit=len(tokens))])
    return caught[0]
