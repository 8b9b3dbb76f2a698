"""fp32 roundings outside products, which the recipe's error model leaves out: a walk over K = 128 hides them.

Two parts, in units of one rms rounding of fp32, added in quadrature:

* 8 units: 3 of A = exp(A_log) with A up to 16, which all tokens of a head share; 2 of the softplus; 1 of its product with A;
  2 a token over a memory of 25 tokens (−0.04 nat a token): √(9 + 4 + 1 + 50);
* engines take the softplus as ln(1 + e^y), whose sum is rounded at 1 however small e^y is: an error of one unit in the
  softplus, A units in g. A state that decays by g a token keeps √(1 / 2|g|) of them, of as many tokens as there are.

Measured where the first part alone was too little: fla's recurrent GDN in the interpreter, one head with A = 26.5, 5.3e-7.
"""

from __future__ import annotations

from math import hypot

import torch

from replaycheck_kernels.activation import log_decay
from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.precision import WORST_RMS, Precision
from replaycheck_kernels.recipe import Recipe

UNIT = WORST_RMS[Precision.FP32]
_SINGLE = 8.0


def elementwise(x: KdaInputs, recipe: Recipe) -> float:
    """Relative error of states and outputs; rms over heads and channels."""
    if x.lower_bound is not None:
        return _SINGLE * UNIT
    rate = x.A_log.double().exp()[:, None]
    g = -log_decay(x.a, x.A_log, x.dt_bias, recipe).double().mean(0)
    memory = torch.clamp(1 / (2 * g), max=float(max(x.lengths())))
    softplus = float((rate * memory.sqrt()).square().mean().sqrt())
    return UNIT * hypot(_SINGLE, softplus)
