"""Precision: F1 to F16, and reports of lost bits. Each says where it rounds, and what shows that it did."""

from __future__ import annotations

import torch

from replaycheck.schema.arm import Compiler, PoolDtype, Rollback
from replaycheck_kernels.precision import Precision

from .. import casts, pools, speculation, weights
from ..cell import SmallCell
from ..fault import Fault
from ..kernels import rounds_each_chunk
from ..plans import bf16_snapshot, rounds_each_step
from ..recipes import with_fields
from .cells import ALIGNED, INTERIOR, SHORT, TIERS, TURNS, pooled

EVERYWHERE = frozenset({Compiler.COLD, Compiler.WARM})
_FP32, _FP16 = PoolDtype.FP32, PoolDtype.FP16

FAULTS = (
    Fault(
        "bf16-snapshot",
        "snapshots inside an extend came from the per-chunk states, which have the activation dtype (SGLang PR 34820)",
        "RC101",
        schedule=bf16_snapshot,
        cells=(pooled(INTERIOR, _FP32), pooled(INTERIOR, _FP16)),
        silent_on=(pooled(ALIGNED, _FP32), INTERIOR),
        claims=("exact/logits-bits", "exact/restored-state", "exact/provenance"),
    ),
    Fault(
        "via-bf16",
        "a store casts fp32 to bf16 first and then to the pool dtype",
        "RC101",
        cast=casts.via_bf16,
        cells=(pooled(TURNS, _FP16),),
        silent_on=(SHORT,),
        claims=("exact/double-rounding", "exact/restored-state", "exact/provenance"),
    ),
    Fault(
        "via-fp16",
        "a store casts fp32 to fp16 first and then to a bf16 pool",
        "RC103",
        cast=casts.via_fp16,
        cells=(TURNS,),
        silent_on=(pooled(SHORT, _FP16),),
        claims=("exact/double-rounding", "exact/restored-state"),
    ),
    Fault(
        "overflow",
        "a state is kept scaled, leaves fp16's range and is infinite from then on",
        "RC106",
        cast=casts.scaled,
        parameters={"scale": 2.0**24},
        cells=(pooled(SHORT, _FP16),),
        silent_on=(SHORT, pooled(SHORT, _FP32)),
        claims=("exact/logits-bits", "exact/restored-state", "exact/double-rounding"),
    ),
    Fault(
        "flushed",
        "a store flushes what would be subnormal in fp16 to zero",
        "RC107",
        cast=casts.flushing,
        cells=(pooled(TURNS, _FP16),),
        silent_on=(SHORT,),
        claims=("exact/double-rounding", "exact/restored-state"),
    ),
    Fault(
        "truncated",
        "a store cuts low bits off instead of rounding to nearest, so that all errors have one sign (aiter issue 5151)",
        "RC104",
        cast=casts.truncating,
        cells=(TURNS,),
        silent_on=(pooled(SHORT, _FP32),),
        claims=("exact/double-rounding", "exact/restored-state"),
    ),
    Fault(
        "rounded-each-chunk",
        "a prefill kernel carries its state through the pool's dtype from chunk to chunk instead of in fp32",
        "RC108",
        provider=rounds_each_chunk(torch.bfloat16),
        cells=(pooled(INTERIOR, _FP32), INTERIOR),
        silent_on=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "rounded-each-step",
        "a window's tokens are stored to a reduced pool one by one, where the other path rounds once a window",
        "RC108",
        schedule=rounds_each_step,
        cells=(SmallCell("speculative", rollback=Rollback.REPLAY),),
        silent_on=(SmallCell("speculative", rollback=Rollback.REPLAY, pool=_FP32),),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "correction-bf16",
        "RecoverSSM's corrections are kept in bf16 between verify and commit",
        "RC407",
        speculation=speculation.corrections_bf16,
        claims=("state/torch-recover-commit",),
    ),
    Fault(
        "beta-bf16",
        "beta is rounded to bf16 after its sigmoid, so each step writes a slightly wrong update (SGLang issue 38975)",
        "RC111",
        recipe=with_fields(beta=Precision.BF16, recurrent_beta=Precision.BF16),
        enters=EVERYWHERE,
        cells=(SHORT,),
        claims=("exact/kernel-oracle", "exact/logits-bits"),
    ),
    Fault(
        "decay-bf16",
        "the log decay passes through bf16 on its way into the kernel",
        "RC112",
        recipe=with_fields(decay_site="outside", activation=Precision.BF16),
        enters=EVERYWHERE,
        cells=(SHORT,),
        claims=("exact/kernel-oracle", "exact/logits-bits"),
    ),
    Fault(
        "rates-bf16",
        "a loader casts A_log to bf16: each head forgets at another rate, always by the same",
        "RC113",
        weights=weights.rates_bf16,
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "bias-bf16",
        "a loader casts dt_bias to bf16",
        "RC113",
        weights=weights.bias_bf16,
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "int8-checkpoint",
        "checkpoints are quantised to eight bits a value with one scale a head and channel",
        "RC105",
        cast=casts.int8,
        cells=(pooled(TURNS, _FP32), TURNS),
        claims=("exact/double-rounding", "exact/restored-state", "exact/logits-bits"),
    ),
    Fault(
        "norm-epsilon",
        "the norm of q and k adds 1e-5 under its root instead of 1e-6, which only keys near zero show",
        "RC114",
        recipe=with_fields(norm_epsilon=1e-5),
        enters=EVERYWHERE,
        claims=("extremes/small-keys",),
        silent="a key's sum of squares is of order K: 1e-5 against 1e-6 moves k̂ by less than fp32 resolves",
    ),
    Fault(
        "norm-without-epsilon",
        "the norm of q and k adds nothing under its root, so that a key of zeros becomes NaN",
        "RC114",
        recipe=with_fields(norm_epsilon=0.0),
        enters=EVERYWHERE,
        claims=("extremes/zero-keys",),
        silent="no key of a trained model is exactly zero; 1e-6 beside a sum of order K is under fp32's resolution",
    ),
    Fault(
        "keys-bf16",
        "a decode kernel rounds normalised q and k to bf16, which its prefill path does and it shouldn't",
        "RC114",
        recipe=with_fields(recurrent_qk=Precision.BF16),
        enters=EVERYWHERE,
        cells=(SHORT,),
        claims=("exact/kernel-oracle", "exact/logits-bits"),
    ),
    Fault(
        "output-norm-epsilon",
        "a model without the setting takes 1e-6 for the epsilon of its norms where the checkpoint has 1e-5",
        "RC512",
        weights=weights.norm_epsilon(1e-6),
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "copies-rounded",
        "a copy of a slot passes through bf16: a move to another tier loses bits",
        "RC313",
        pool=pools.rounded_copies,
        cells=(pooled(TIERS, _FP32),),
        silent_on=(SHORT,),
        claims=("exact/restored-state", "exact/labels", "state/copy-tier"),
    ),
    Fault(
        "verify-writes",
        "a verify writes the pool it should only read, so that a rejected draft stays in the state",
        "RC407",
        speculation=speculation.writes_the_pool,
        claims=("state/torch-verify-reads",),
    ),
)
