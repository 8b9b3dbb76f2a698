"""Errors of elementary functions in fp32, which the recipe's error model leaves out: a walk over K = 128 hides them.

Three parts, added in quadrature:

* 8 units (rms roundings of fp32): 3 of A = exp(A_log), which all tokens of a head share, the rest a token's own products;
* the logarithm in the softplus ln(1 + e^y), as engines take it: near 1 its error is absolute, so g is off by A times that.
  Tokens of a channel have like arguments, so their errors have one sign and add up: what a state holds from m tokens ago is
  off by m of them;
* what takes another value at every token, and so walks at random over what a state remembers: the rounding of that sum at 1,
  however small e^y is, and the relative error of e^g.

A channel that decays by g a token holds e^(−2gm) of the energy from m tokens ago. So it remembers 1 / 2g tokens, the rms of
m is √2 / 2g, both are at most the number of tokens, and the channel holds as much of the state's energy as it remembers
tokens. The functions' errors are those of ``hardware`` on a GPU; elsewhere only roundings are taken.

Measured on an H200, largest share of what is allowed here: fla's recurrent kernels 0.7 (GDN, recorded activations; without a
drift 1.4e-5 would stand against 5.5e-6) and 0.2 (KDA), SGLang's and vLLM's 0.1, which take the logarithm in full precision.
The bound stays under 1.2e-4 there; beta rounded to bf16 makes 1.4e-3.
"""

from __future__ import annotations

from math import hypot, sqrt

import torch

from replaycheck_kernels import hardware
from replaycheck_kernels.activation import log_decay
from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.precision import WORST_RMS, Precision
from replaycheck_kernels.recipe import Recipe

UNIT = WORST_RMS[Precision.FP32]
_SINGLE = 8.0


def elementwise(x: KdaInputs, recipe: Recipe, on_gpu: bool = False) -> float:
    """Relative error of states and outputs; rms over heads and channels."""
    drift = hardware.LN if on_gpu else 0.0
    exponential = hardware.EXP if on_gpu else hardware.ONE_PLUS
    rate = torch.zeros(()) if x.lower_bound is not None else x.A_log.double().exp()[:, None]
    g = -log_decay(x.a, x.A_log, x.dt_bias, recipe, x.lower_bound).double().mean(0)
    tokens = float(max(x.lengths()))
    memory, age = (torch.clamp(share / (2 * g), max=tokens) for share in (1.0, sqrt(2)))
    walk = ((rate * hardware.ONE_PLUS).square() + exponential**2) * memory
    variance = (rate * drift * age).square() + walk
    return hypot(_SINGLE * UNIT, float(((variance * memory).sum() / memory.sum()).sqrt()))
