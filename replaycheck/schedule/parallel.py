"""Tensor parallelism as plain data: which heads a rank has, how tensors are cut, in which order partial sums are added.

As in SGLang (srt/models/kimi_linear.py) and vLLM (models/kimi_k3/nvidia/kda.py): q, k, v, beta, the decay's and the gate's
second matrix, A_log and dt_bias are cut by head; the low-rank inputs f_a and g_a, the norms and MLA's latent are on every
rank; the output and down projections are cut along their inner axis, so their products are summed over the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from replaycheck.errors import UsageError
from replaycheck.model.config import ModelConfig

Range = tuple[int, int]
"""From the first to behind the last."""


@dataclass(frozen=True)
class Geometry:
    """What a model can split. Value head h reads key head h // (HV / H).

    Attributes:
        key_heads, value_heads: H and HV of a KDA layer. key, value: K and V, channels of one head.
        mla_heads: heads of an MLA layer, 0 without one. mla_key: nope and rope. mla_expanded: nope and value.
        inner: width of the MLP, 0 without one.
    """

    key_heads: int
    value_heads: int
    key: int
    value: int
    mla_heads: int = 0
    mla_key: int = 0
    mla_expanded: int = 0
    mla_value: int = 0
    inner: int = 0

    def counts(self) -> dict[str, int]:
        """What a degree must divide, by name."""
        parts = {
            "KDA heads": self.key_heads,
            "KDA value heads": self.value_heads,
            "MLA heads": self.mla_heads,
            "MLP channels": self.inner,
        }
        return {name: count for name, count in parts.items() if count}


@dataclass(frozen=True)
class Cut:
    """Part of a tensor: the ranges of one axis, joined in their order."""

    axis: int
    ranges: tuple[Range, ...]

    def indices(self) -> tuple[int, ...]:
        """Where each element of the part lies in the whole."""
        return tuple(i for first, end in self.ranges for i in range(first, end))


@dataclass(frozen=True)
class RankPlan:
    """What one rank has.

    Attributes:
        cuts: by tensor, e.g. ``kda.conv`` (weights by the names of the lab's dataclasses, [out, in]), and the two parts of
            a slot: ``state.conv`` [L, W − 1, q|k|v] and ``state.temporal`` [L, HV, V, K]; None is on every rank.
    """

    rank: int
    key_heads: Range
    value_heads: Range
    mla_heads: Range
    inner: Range
    cuts: Mapping[str, Cut | None]


@dataclass(frozen=True)
class ParallelPlan:
    """One plan a rank. order: of the ranks in each sum."""

    ranks: tuple[RankPlan, ...]
    order: tuple[int, ...]


def geometry_of(config: ModelConfig) -> Geometry:
    """A Kimi Linear checkpoint has as many value heads as key heads, and V = K."""
    return Geometry(
        key_heads=config.kda_heads,
        value_heads=config.kda_heads,
        key=config.kda_head_dim,
        value=config.kda_head_dim,
        mla_heads=config.mla_heads if config.mla_layers else 0,
        mla_key=config.qk_head_dim,
        mla_expanded=config.qk_nope_head_dim + config.v_head_dim,
        mla_value=config.v_head_dim,
        inner=config.intermediate_size,
    )


def fitting_degrees(geometry: Geometry) -> tuple[int, ...]:
    """Degrees that divide everything that is split."""
    common = gcd(*geometry.counts().values())
    return tuple(degree for degree in range(1, common + 1) if common % degree == 0)


def plan_ranks(geometry: Geometry, degree: int) -> ParallelPlan:
    """The plans of ``degree`` ranks; each has neighbouring heads, and sums are added from rank 0 up.

    Raises:
        UsageError: the degree doesn't divide the heads or the MLP.
    """
    fitting = fitting_degrees(geometry)
    if degree not in fitting:
        counts = ", ".join(f"{count} {name}" for name, count in geometry.counts().items())
        raise UsageError(
            f"tensor_parallel = {degree} doesn't divide the model ({counts}); "
            f"degrees that fit: {', '.join(map(str, fitting))}"
        )
    return ParallelPlan(tuple(_rank(geometry, degree, rank) for rank in range(degree)), tuple(range(degree)))


def _rank(g: Geometry, degree: int, rank: int) -> RankPlan:
    def part(count: int) -> Range:
        return rank * count // degree, (rank + 1) * count // degree

    keys, values, mla, inner = (part(count) for count in (g.key_heads, g.value_heads, g.mla_heads, g.inner))
    cuts = _kda(g, keys, values) | _mla(g, mla) | _mlp(inner) | _state(g, keys, values)
    return RankPlan(rank, keys, values, mla, inner, cuts)


def _kda(g: Geometry, keys: Range, values: Range) -> dict[str, Cut | None]:
    return {
        "kda.qkv": Cut(0, _qkv(g, keys, values)),
        "kda.conv": Cut(0, _qkv(g, keys, values)),
        "kda.f_a": None,
        "kda.f_b": Cut(0, (_channels(values, g.key),)),
        "kda.g_a": None,
        "kda.g_b": Cut(0, (_channels(values, g.value),)),
        "kda.b": Cut(0, (values,)),
        "kda.A_log": Cut(0, (values,)),
        "kda.dt_bias": Cut(0, (values,)),
        "kda.o_norm": None,
        "kda.o": Cut(1, (_channels(values, g.value),)),
    }


def _mla(g: Geometry, heads: Range) -> dict[str, Cut | None]:
    return {
        "mla.q": Cut(0, (_channels(heads, g.mla_key),)),
        "mla.kv_a": None,
        "mla.kv_norm": None,
        "mla.kv_b": Cut(0, (_channels(heads, g.mla_expanded),)),
        "mla.o": Cut(1, (_channels(heads, g.mla_value),)),
    }


def _mlp(inner: Range) -> dict[str, Cut | None]:
    return {"mlp.gate": Cut(0, (inner,)), "mlp.up": Cut(0, (inner,)), "mlp.down": Cut(1, (inner,))}


def _state(g: Geometry, keys: Range, values: Range) -> dict[str, Cut | None]:
    return {"state.conv": Cut(2, _qkv(g, keys, values)), "state.temporal": Cut(1, (values,))}


def _qkv(g: Geometry, keys: Range, values: Range) -> tuple[Range, ...]:
    """q, k and v are blocks of one axis, each cut by itself; a contiguous part of the axis would mix them."""
    width = g.key_heads * g.key
    blocks = ((0, keys, g.key), (width, keys, g.key), (2 * width, values, g.value))
    return tuple(
        (first + begin, first + end) for first, heads, size in blocks for begin, end in [_channels(heads, size)]
    )


def _channels(heads: Range, size: int) -> Range:
    return heads[0] * size, heads[1] * size
