"""Rounding in an epilogue, and the logistic function: device functions that several kernels share."""

import triton
import triton.language as tl


@triton.jit
def rounded(x, PRECISION: tl.constexpr):
    """fp32 to the grid of ``PRECISION`` and back, to nearest, ties to even (``cvt.rn``)."""
    if PRECISION == "bf16":
        x = x.to(tl.bfloat16).to(tl.float32)
    if PRECISION == "fp16":
        x = x.to(tl.float16).to(tl.float32)
    return x


@triton.jit
def inverse_logistic(x):
    """1 + e^−x, the reciprocal of sigmoid(x).

    Relative error of ``tl.exp`` at y: 1.5·|y|·2^-24 from y·log2(e) and its rounded constant, and 2^-22 from ``ex2.approx``.
    """
    return 1.0 + tl.exp(-x)
