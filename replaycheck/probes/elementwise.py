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

Measured on an H200 with an fp32 pool, the state's largest error over all that is predicted for it, fp32 association
included: fla's recurrent kernels 0.71 (GDN, recorded activations: 1.4e-5 of 2.0e-5) and 0.37 (KDA, mild decay; 0.17
recorded). SGLang's and vLLM's, which take the logarithm in full precision, 0.13 (GDN; 0.04 recorded) and 0.15 (KDA; 0.01
recorded). What is predicted stays under 1.1e-4; beta rounded to bf16, as SGLang's packed decode of GDN does, makes 1.2e-3 to
1.6e-3.
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
