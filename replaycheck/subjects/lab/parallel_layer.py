"""One random KDA layer over ranks: shapes that no checkpoint has (8 heads, HV ≠ H, V ≠ K), the layer that the lab runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from replaycheck.schedule.parallel import Geometry, ParallelPlan, RankPlan, plan_ranks
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.precision import container, round_to
from replaycheck_kernels.recipe import Recipe

from .convolution import conv_plan
from .kda import KdaWeights, Packed, kda_layer
from .parallel_compare import slice_problem
from .parallel_shard import shard_kda, take
from .parallel_sum import RowProduct, SumDifference, sum_difference
from .pass_states import PassStates

_HIDDEN, _LOW_RANK, _WIDTH, _EPSILON = 48, 12, 4, 1e-5
_CHUNK = 64


@dataclass(frozen=True)
class LayerCase:
    """What is run: sequences of these lengths, continuing random states, through one form."""

    geometry: Geometry
    lengths: tuple[int, ...]
    form: str
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class LayerAnswer:
    """problems: local results of ranks that aren't slices of the whole, in words. sum: the output projection's."""

    problems: tuple[str, ...]
    sum: SumDifference


@dataclass(frozen=True)
class LayerState:
    """finals: [R, H, V, K]; snapshots: [S, H, V, K], row by row; windows: [Q, W − 1, 3 D]."""

    finals: Tensor
    snapshots: Tensor
    windows: Tensor


@dataclass(frozen=True)
class _Layer:
    x: Tensor  # [N, hidden]
    weights: KdaWeights
    conv: Tensor  # [R, W − 1, 2 H K + HV V]
    temporal: Tensor  # [R, HV, V, K]


def compare_layer(
    case: LayerCase, degree: int, recipe: Recipe, kernels: Mapping[str, StateKernel], plan: ParallelPlan | None = None
) -> LayerAnswer:
    """The layer whole and over ``degree`` ranks, on the same inputs.

    Args:
        plan: the ranks' plans, if not the right ones.
    """
    plan = plan or plan_ranks(case.geometry, degree)
    layer, packed = _draw(case, recipe), _packed(case)
    whole = _run(layer.x, layer.weights, (layer.conv, layer.temporal), packed, kernels, recipe)
    problems: list[str] = []
    parts = []
    for rank in plan.ranks:
        mine = shard_kda(layer.weights, rank)
        before = take(layer.conv, rank.cuts["state.conv"]), take(layer.temporal, rank.cuts["state.temporal"])
        mixed, state = _run(layer.x, mine, before, packed, kernels, recipe)
        problems += [f"rank {rank.rank}: {text}" for text in _problems(rank, whole, mixed, state)]
        parts.append(RowProduct(mixed, mine.o))
    product = RowProduct(whole[0], layer.weights.o)
    return LayerAnswer(tuple(problems), sum_difference(product, parts, plan.order, recipe.activation))


def _run(
    x: Tensor,
    weights: KdaWeights,
    before: tuple[Tensor, Tensor],
    packed: Packed,
    kernels: Mapping[str, StateKernel],
    recipe: Recipe,
) -> tuple[Tensor, LayerState]:
    conv, temporal = before
    states = PassStates([state[None] for state in temporal], packed.calls, kernels, temporal.dtype)
    mixed, windows = kda_layer(x, weights, conv, states, 0, packed, recipe, _EPSILON)
    snapshots = torch.cat([temporal[:0], *states.snapshots()])
    return mixed, LayerState(torch.cat(states.finals()), snapshots, windows)


def _problems(rank: RankPlan, whole: tuple[Tensor, LayerState], mixed: Tensor, state: LayerState) -> list[str]:
    conv, temporal, output = (rank.cuts[name] for name in ("state.conv", "state.temporal", "kda.o"))
    pairs = (
        ("the conv state", whole[1].windows, state.windows, conv),
        ("the final state", whole[1].finals, state.finals, temporal),
        ("a snapshot", whole[1].snapshots, state.snapshots, temporal),
        ("the output before its projection", whole[0], mixed, output),
    )
    return [text for pair in pairs if (text := slice_problem(*pair))]


def _packed(case: LayerCase) -> Packed:
    """Each sequence that passes a chunk end is asked for the state there."""
    offsets, sequences = (0, *accumulate(case.lengths)), len(case.lengths)
    inside = case.form == "chunk"
    asked = tuple(((1, "accumulator"),) if inside and n > _CHUNK else () for n in case.lengths)
    windows = [(r, n) for r, n in enumerate(case.lengths)]
    return Packed(
        offsets=offsets,
        starts=(0,) * sequences,
        forms=(case.form,) * sequences,
        snapshots=asked,
        verifies=(None,) * sequences,
        conv=conv_plan(offsets, windows, torch.device(case.device)),
    )


def _draw(case: LayerCase, recipe: Recipe) -> _Layer:
    """Random tensors of a trained layer's sizes; activations and conv states on the recipe's grid.

    Rates and time steps are those of training's start (fla, after Mamba): A from 1 to 16, softplus(dt_bias) about 0.03.
    """
    generator, g = torch.Generator().manual_seed(case.seed), case.geometry
    tokens, keys, values = sum(case.lengths), g.key_heads * g.key, g.value_heads * g.value

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(shape, generator=generator) * scale
        return drawn.to(case.device, container(recipe.activation))

    def matrix(out: int, inner: int) -> Tensor:
        return normal(out, inner, scale=inner**-0.5)

    weights = KdaWeights(
        qkv=matrix(2 * keys + values, _HIDDEN),
        conv=normal(2 * keys + values, _WIDTH, scale=0.5),
        f_a=matrix(_LOW_RANK, _HIDDEN),
        f_b=matrix(g.value_heads * g.key, _LOW_RANK),
        g_a=matrix(_LOW_RANK, _HIDDEN),
        g_b=matrix(values, _LOW_RANK),
        b=matrix(g.value_heads, _HIDDEN),
        A_log=normal(g.value_heads).sigmoid() * 2.77,
        dt_bias=normal(g.value_heads, g.key) - 3.4,
        o_norm=1 + normal(g.value, scale=0.1),
        o=matrix(_HIDDEN, values),
    )
    batch = len(case.lengths)
    return _Layer(
        round_to(normal(tokens, _HIDDEN), recipe.activation),
        weights,
        round_to(normal(batch, _WIDTH - 1, 2 * keys + values), recipe.activation),
        normal(batch, g.value_heads, g.value, g.key, scale=0.1),
    )
