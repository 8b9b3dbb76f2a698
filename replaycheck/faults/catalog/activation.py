"""Activation, gates and layout of the arithmetic: F63 to F70, and reports of kernels."""

from __future__ import annotations

from replaycheck.schema.arm import Compiler

from .. import kernels, weights
from ..cell import SmallCell
from ..fault import Fault
from ..recipes import with_fields
from .cells import BEAM, GRID, MATES, SHORT, TURNS

EVERYWHERE = frozenset({Compiler.COLD, Compiler.WARM})
_BOTH = ("exact/kernel-oracle", "exact/logits-bits")

FAULTS = (
    Fault(
        "beta-raw",
        "a prefill kernel skipped the sigmoid of beta (SGLang PR 40685)",
        "RC501",
        enters=EVERYWHERE,
        recipe=with_fields(beta_site="nowhere"),
        cells=(SHORT,),
        claims=(*_BOTH, "kernels/activation"),
    ),
    Fault(
        "beta-twice",
        "caller and kernel both apply the sigmoid of beta",
        "RC502",
        enters=EVERYWHERE,
        recipe=with_fields(beta_site="twice"),
        cells=(SHORT,),
        claims=(*_BOTH, "kernels/activation"),
    ),
    Fault(
        "decay-swapped",
        "softplus and lower bound are mixed up: a fallback takes the other formula of the decay",
        "RC503",
        enters=EVERYWHERE,
        recipe=with_fields(decay_rule="swapped"),
        cells=(SHORT,),
        claims=(*_BOTH, "kernels/error"),
    ),
    Fault(
        "bias-dropped",
        "a fallback is called without dt_bias",
        "RC504",
        enters=EVERYWHERE,
        recipe=with_fields(decay_bias="dropped"),
        cells=(SHORT,),
        claims=(*_BOTH, "kernels/activation"),
    ),
    Fault(
        "bias-not-loaded",
        "a loader leaves dt_bias at zero",
        "RC504",
        weights=weights.bias_dropped,
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "scale-twice",
        "K^-½ is applied by caller and kernel both",
        "RC507",
        enters=EVERYWHERE,
        recipe=with_fields(scale_times=2),
        claims=("exact/kernel-oracle", "kernels/error"),
        silent="a constant factor of o, which the norm after the layer takes out up to its epsilon",
    ),
    Fault(
        "scale-missing",
        "nobody applies K^-½",
        "RC507",
        enters=EVERYWHERE,
        recipe=with_fields(scale_times=0),
        claims=("exact/kernel-oracle", "kernels/error"),
        silent="a constant factor of o, which the norm after the layer takes out up to its epsilon",
    ),
    Fault(
        "exponent-domain",
        "a log decay in nat is the exponent of 2: every decay is its 0.69th power",
        "RC505",
        enters=EVERYWHERE,
        recipe=with_fields(decay_unit="mixed"),
        cells=(SHORT,),
        claims=(*_BOTH, "kernels/error"),
    ),
    Fault(
        "decay-last",
        "the delta and the output come before the token's own decay",
        "RC506",
        enters=EVERYWHERE,
        recipe=with_fields(decay_at="last"),
        cells=(SHORT,),
        claims=_BOTH,
    ),
    Fault(
        "silu-missing",
        "the activation of the short convolution is left out",
        "RC508",
        recipe=with_fields(conv_activation="none"),
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
        cpu_only="the GPU's convolution always applies SiLU",
    ),
    Fault(
        "conv-narrow",
        "the short convolution reads three tokens instead of four",
        "RC513",
        weights=weights.narrow_conv,
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "conv-reversed",
        "the taps of the short convolution are in the other order",
        "RC513",
        weights=weights.conv_reversed,
        cells=(SHORT,),
        claims=("exact/logits-bits", "exact/restored-state"),
    ),
    Fault(
        "gates-misaligned",
        "queries, keys and values are gathered for a call's rows and the gates aren't (vLLM PR 51812)",
        "RC606",
        provider=kernels.gates_in_batch_order,
        cells=(MATES,),
        silent_on=(SmallCell("twice"),),
        claims=("exact/logits-bits", "kernels/alone"),
    ),
    Fault(
        "rows-of-last-step",
        "a decode kernel reads states by the rows of the step before, wrong after one row ended (llama.cpp issue 29002)",
        "RC606",
        provider=kernels.reads_the_wrong_row,
        cells=(MATES,),
        silent_on=(SHORT,),
        claims=("exact/logits-bits",),
    ),
    Fault(
        "out-of-bounds",
        "a load isn't masked and reads past a row of channels; what lies there overflows (flash-linear-attention PR 1135)",
        "RC109",
        provider=kernels.out_of_bounds(float("nan")),
        cells=(SHORT,),
        claims=("exact/logits-bits", "kernels/error"),
    ),
    Fault(
        "one-row-nan",
        "an operator outside the state gives NaN for calls of one row; the snapshot is suspected first (SGLang PR 29633)",
        "RC109",
        provider=kernels.nan_for_one_token,
        cells=(SmallCell("one-token", GRID),),
        silent_on=(TURNS, BEAM),
        claims=("exact/logits-bits",),
    ),
    Fault(
        "series-inverse",
        "the triangular inverse is a product series in fp16, which overflows for nearly parallel keys (FlashKDA PR 10)",
        "RC511",
        provider=kernels.series_inverse,
        claims=("extremes/parallel-keys",),
        silent="keys of random inputs are never nearly parallel; a probe with parallel ones shows it",
    ),
)
