"""A rank's part of weights and states, as its plan cuts them, and the whole again from all ranks' parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from replaycheck.model.config import ModelConfig
from replaycheck.schedule.parallel import Cut, RankPlan

from .device import uses_triton
from .kda import KdaWeights
from .layers import ColumnShard, Matrix
from .network import Shard
from .state import SequenceState
from .weights import LayerWeights, MlaWeights, NetworkWeights

Weights = TypeVar("Weights", KdaWeights, MlaWeights)

COLUMN_PARALLEL = ("kda.qkv", "kda.f_b", "kda.g_b", "kda.b", "mla.q", "mla.kv_b", "mlp.gate", "mlp.up")


def take(whole: Tensor, cut: Cut | None) -> Tensor:
    """The part of a tensor [...], in memory of its own; the tensor itself where every rank has it."""
    return whole if cut is None else whole.index_select(cut.axis, _places(cut, whole))


def shard_of(plan: RankPlan) -> Shard:
    """Geometry and weights of a rank, as ``Network`` takes them. Embedding, head and norms are on every rank."""

    def shard(config: ModelConfig, weights: NetworkWeights) -> tuple[ModelConfig, NetworkWeights]:
        heads, mla, inner = (end - first for first, end in (plan.value_heads, plan.mla_heads, plan.inner))
        own = replace(config, kda_heads=heads, mla_heads=mla or config.mla_heads, intermediate_size=inner)
        return own, replace(weights, layers=tuple(_layer(layer, plan) for layer in weights.layers))

    return shard


def _layer(layer: LayerWeights, plan: RankPlan) -> LayerWeights:
    attention = layer.attention
    return replace(
        layer,
        attention=shard_kda(attention, plan) if isinstance(attention, KdaWeights) else _cut_all(attention, "mla", plan),
        gate=_cut("mlp.gate", layer.gate, plan),
        up=_cut("mlp.up", layer.up, plan),
        down=take(layer.down, plan.cuts["mlp.down"]),
    )


def shard_kda(weights: KdaWeights, plan: RankPlan) -> KdaWeights:
    """One KDA layer's weights of a rank."""
    return _cut_all(weights, "kda", plan)


def _cut_all(weights: Weights, kind: str, plan: RankPlan) -> Weights:
    # Which of them may be column shards the dataclasses say.
    parts: dict[str, Any] = {f.name: _cut(f"{kind}.{f.name}", getattr(weights, f.name), plan) for f in fields(weights)}
    return replace(weights, **parts)


def _cut(name: str, whole: Matrix, plan: RankPlan) -> Matrix:
    cut = plan.cuts[name]
    if isinstance(whole, ColumnShard):
        raise TypeError(f"{name} is a shard already")
    if cut is None or name not in COLUMN_PARALLEL or uses_triton(whole.device):
        # A Triton product's element is one ordered sum, however wide the product is.
        return take(whole, cut)
    places = _places(cut, whole)
    kept = torch.zeros_like(whole)
    kept[places] = whole[places]
    return ColumnShard(kept, places)


def split_state(whole: SequenceState, plan: RankPlan) -> SequenceState:
    """A rank's part of a slot, byte for byte. Attention pages have the same numbers on every rank."""
    conv, temporal = take(whole.conv, plan.cuts["state.conv"]), take(whole.temporal, plan.cuts["state.temporal"])
    return SequenceState(conv, temporal, whole.pages, whole.identity)


def join_states(parts: Sequence[SequenceState], plans: Sequence[RankPlan], like: SequenceState) -> SequenceState:
    """The slot of the whole model from those of its ranks. like: a state of the whole, for its shapes."""
    conv, temporal = torch.empty_like(like.conv), torch.empty_like(like.temporal)
    for part, plan in zip(parts, plans, strict=True):
        _put(conv, part.conv, plan.cuts["state.conv"])
        _put(temporal, part.temporal, plan.cuts["state.temporal"])
    return SequenceState(conv, temporal, parts[0].pages, parts[0].identity)


def _put(whole: Tensor, part: Tensor, cut: Cut | None) -> None:
    if cut is not None:
        whole.index_copy_(cut.axis, _places(cut, whole), part)


def _places(cut: Cut, whole: Tensor) -> Tensor:
    return torch.tensor(cut.indices(), dtype=torch.long, device=whole.device)
