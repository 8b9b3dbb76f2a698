"""Sharding: F33 to F36, and reports of tensor parallelism. A rank sees its own part only; one rank shows none of them."""

from __future__ import annotations

from .. import kernels, pools, shards, weights
from ..cell import SmallCell
from ..fault import Fault
from .cells import GRID, INTERIOR, RANKS, SHORT

_BITS = ("exact/logits-bits", "exact/restored-state")

FAULTS = (
    Fault(
        "beta-replicated",
        "every rank loads the first rank's beta, as a replicated part of a merged projection is loaded",
        "RC604",
        shards=shards.beta_replicated,
        cells=(RANKS,),
        silent_on=(SHORT,),
        claims=_BITS,
    ),
    Fault(
        "heads-of-next-rank",
        "a restored state goes to the rank of other heads",
        "RC510",
        pool=pools.heads_of_another_rank,
        cells=(SmallCell("twice", GRID, tensor_parallel=2),),
        claims=(*_BITS, "exact/labels"),
    ),
    Fault(
        "heads-turned",
        "a kernel returns snapshots with its heads in another order",
        "RC510",
        provider=kernels.heads_turned,
        cells=(INTERIOR,),
        silent_on=(SHORT,),
        claims=_BITS,
    ),
    Fault(
        "conv-cut-as-one",
        "the conv state is cut over the ranks as one axis instead of q, k and v each (vLLM issue 55208)",
        "RC604",
        shards=shards.contiguous("state.conv"),
        cells=(RANKS,),
        silent_on=(SHORT,),
        claims=("exact/conv-bytes",),
        silent="as long as every rank reads back what it wrote, no output shows it; another degree would",
    ),
    Fault(
        "conv-moved-as-one",
        "a slot's conv state is cut as one axis when it is moved between unlike degrees",
        "RC604",
        pool=pools.conv_channels_sliced,
        cells=(RANKS,),
        claims=("exact/logits-bits", "exact/conv-bytes", "exact/labels"),
    ),
    Fault(
        "conv-weight-cut-as-one",
        "the convolution's weight is cut over the ranks as one axis",
        "RC604",
        shards=shards.contiguous("kda.conv"),
        cells=(RANKS,),
        silent_on=(SHORT,),
        claims=("exact/logits-bits",),
    ),
    Fault(
        "decay-input-halved",
        "the low-rank input of the decay is sharded where every rank needs it whole",
        "RC604",
        weights=weights.decay_rank_halved,
        cells=(SHORT,),
        claims=_BITS,
    ),
    Fault(
        "rates-of-next-rank",
        "A_log and dt_bias are those of another rank's heads",
        "RC604",
        shards=shards.of_the_next_rank("kda.A_log", "kda.dt_bias"),
        cells=(RANKS,),
        silent_on=(SHORT,),
        claims=_BITS,
    ),
    Fault(
        "rates-of-next-head",
        "the same as a loader's mistake in a model on one rank",
        "RC604",
        weights=weights.rates_of_the_next_head,
        cells=(SHORT,),
        claims=_BITS,
    ),
)
