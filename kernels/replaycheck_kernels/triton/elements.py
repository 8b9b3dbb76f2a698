"""Element-wise parts of the kernels, written as the emulator computes them: decay, beta, norms, roundings.

``BF16`` says whether a recipe rounds operands to bf16 (tensor cores) or leaves everything in fp32 (``exact``).
"""

import os

import triton
import triton.language as tl

#: The interpreter takes a millisecond for each term of ``outer_sum``, so there fp32 products are numpy's.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
LOG2E = tl.constexpr(1.4426950216293335)  # activation.LOG2E
EPSILON = tl.constexpr(1e-6)  # activation.L2_EPSILON


@triton.jit
def softplus(y):
    """log(1 + e^y) = max(y, 0) + log1p(z), z = e^-|y| ≤ 1; log1p(z) = 2·artanh(s), s = z / (2 + z) ≤ 1/3.

    The series' next term is 2·s^17/17 of 2·s: 1.4e-9 at most.
    """
    z = tl.exp(-tl.abs(y))
    s = z / (2.0 + z)
    t = s * s
    series = tl.fma(t, 1.0 / 15, 1.0 / 13)
    series = tl.fma(t, series, 1.0 / 11)
    series = tl.fma(t, series, 1.0 / 9)
    series = tl.fma(t, series, 1.0 / 7)
    series = tl.fma(t, series, 1.0 / 5)
    series = tl.fma(t, series, 1.0 / 3)
    series = tl.fma(t, series, 1.0)
    return tl.fma(2.0 * s, series, tl.maximum(y, 0.0))


@triton.jit
def log_decay(raw, rate, bias, bound, BOUNDED: tl.constexpr):
    """Natural log of the decay, ≤ 0, in the shape of raw. rate = exp(A_log)."""
    y = raw + bias
    return bound * sigmoid(rate * y) if BOUNDED else -rate * softplus(y)


@triton.jit
def sigmoid(x):
    """1 / (1 + e^-x), as the emulator computes it."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def roots(x, at, live, K: tl.constexpr, BK: tl.constexpr):
    """√(Σx² + ε) of rows ``at`` of x [·, K], from blocks of BK channels."""
    channel = tl.arange(0, BK)
    index = tl.multiple_of(at[:, None] * K + channel[None, :], (1, 4))
    part = tl.load(x + index, mask=live[:, None], other=0.0).to(tl.float32)
    total = tl.sum(part * part, 1)
    for first in tl.static_range(BK, K, BK):
        part = tl.load(x + index + first, mask=live[:, None], other=0.0).to(tl.float32)
        total += tl.sum(part * part, 1)
    return tl.sqrt_rn(total + EPSILON)


@triton.jit
def units(x, at, live, root, inverse, channel, K: tl.constexpr, BF16: tl.constexpr):
    """Some channels of the normalised rows: a rounded reciprocal and a step of Newton make the quotient."""
    index = tl.multiple_of(at[:, None] * K + channel[None, :], (1, 4))
    part = tl.load(x + index, mask=live[:, None], other=0.0).to(tl.float32)
    return rounded(quotient(part, root[:, None], inverse[:, None]), BF16)


@triton.jit
def quotient(x, root, inverse):
    """x / root from ``inverse`` ≈ 1 / root: one step of Newton, so that the last bit is the division's."""
    first = x * inverse
    return tl.fma(tl.fma(-first, root, x), inverse, first)


@triton.jit
def rounded(x, LOW: tl.constexpr):
    """bf16 values in fp32, or x."""
    return x.to(tl.bfloat16).to(tl.float32) if LOW else x


@triton.jit
def low(x, BF16: tl.constexpr):
    """An operand of a product."""
    return x.to(tl.bfloat16) if BF16 else x


@triton.jit
def product(x, y, BF16: tl.constexpr):
    """x @ y of operands from ``low``, summed in fp32."""
    return tl.dot(x, y) if BF16 else exact_product(x, y)


@triton.jit
def exact_product(x, y):
    """x @ y with fp32 operands and sums."""
    return tl.dot(x, y, input_precision="ieee") if INTERPRETED else outer_sum(x, y)


@triton.jit
def outer_sum(x, y):
    """x @ y in fp32, one fused multiply-add a term, in the order of the inner axis.

    Slow and small: ``tl.dot`` in fp32 keeps whole operands in registers, and spilt 11 kB a thread here.
    """
    inner = tl.arange(0, x.shape[1])
    total = tl.zeros([x.shape[0], y.shape[1]], tl.float32)
    for i in range(0, x.shape[1]):
        column = tl.sum(tl.where((inner == i)[None, :], x, -0.0), 1)
        total = tl.fma(column[:, None] + tl.zeros_like(total), pick(y, inner, i)[None, :] + tl.zeros_like(total), total)
    return total


@triton.jit
def tf32(x):
    """x cut to tf32, as a tensor core does with the low bits of its fp32 operands."""
    return ((x.to(tl.uint32, bitcast=True) >> 13) << 13).to(tl.float32, bitcast=True)


@triton.jit
def merged(x, BF16: tl.constexpr):
    """An operand of the inverse's merges: tf32 beside bf16 ones elsewhere."""
    return tf32(x) if BF16 else x


@triton.jit
def merge(x, y, BF16: tl.constexpr):
    """A product of the inverse's merges, of operands from ``merged``."""
    return tl.dot(x, y, input_precision="tf32") if BF16 else exact_product(x, y)


@triton.jit
def parts(x, BF16: tl.constexpr):
    """x as a sum of three bf16 numbers of 8 bits each, without a rounding (above 2^-110); or x itself, thrice."""
    if BF16:
        high, rest = _cut(x)
        middle, rest = _cut(rest)
        lowest, rest = _cut(rest)
    else:
        high, middle, lowest = x, x, x
    return high, middle, lowest


@triton.jit
def _cut(x):
    """The leading 8 bits of x in bf16, and what they leave."""
    raw = x.to(tl.uint32, bitcast=True)
    high = (raw >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return high, x - ((raw >> 16) << 16).to(tl.float32, bitcast=True)


@triton.jit
def fine(x_high, x_middle, x_low, y_high, y_middle, y_low, total, BF16: tl.constexpr):
    """total + x @ yᵀ of fp32 operands in ``parts``, on tensor cores, the smallest products first.

    Three of nine products are left out; together they are 2^-23 of a term, as a rounding in fp32 is 2^-24.
    """
    if BF16:
        high, middle, low_ = tl.trans(y_high), tl.trans(y_middle), tl.trans(y_low)
        total = tl.dot(x_low, high, total)
        total = tl.dot(x_high, low_, total)
        total = tl.dot(x_middle, middle, total)
        total = tl.dot(x_middle, high, total)
        total = tl.dot(x_high, middle, total)
        total = tl.dot(x_high, high, total)
    else:
        total += exact_product(x_high, tl.trans(y_high))
    return total


@triton.jit
def fine_right(x, y_high, y_middle, y_low, total, BF16: tl.constexpr):
    """The same where x is an operand from ``low`` that rounds nothing."""
    if BF16:
        total = tl.dot(x, tl.trans(y_low), total)
        total = tl.dot(x, tl.trans(y_middle), total)
        total = tl.dot(x, tl.trans(y_high), total)
    else:
        total += exact_product(x, tl.trans(y_high))
    return total


@triton.jit
def pick(x, rows, at):
    """Row ``at`` of x [n, m]. The other rows add −0.0, which changes no bit."""
    return tl.sum(tl.where((rows == at)[:, None], x, -0.0), 0)


@triton.jit
def stored(x, seed, index, pool, STOCHASTIC: tl.constexpr):
    """x in the pool's dtype: one rounding to nearest, or a stochastic one that depends on seed and element only."""
    if STOCHASTIC:
        noise = tl.randint(seed, index).to(tl.uint32, bitcast=True)
        if pool.dtype.element_ty == tl.bfloat16:
            kept = _dithered(x, noise, 16)
        elif pool.dtype.element_ty == tl.float16:
            # 2^-14, fp16's smallest normal number.
            kept = tl.where(tl.abs(x) < 6.103515625e-05, _fixed(x, noise), _dithered(x, noise, 13))
        else:
            kept = x
    else:
        kept = x
    return kept.to(pool.dtype.element_ty)


@triton.jit
def _dithered(x, noise, BITS: tl.constexpr):
    """Add noise of less than one unit in the last place kept, then cut. Infinity and NaN stay."""
    raw = x.to(tl.uint32, bitcast=True)
    cut = (((raw + (noise >> (32 - BITS))) >> BITS) << BITS).to(tl.float32, bitcast=True)
    return tl.where(tl.abs(x) < float("inf"), cut, x)


@triton.jit
def _fixed(x, noise):
    """The same below 2^-14, where fp16's steps are 2^-24 = 5.96e-8; ``part`` is 23 bits of noise in [0, 1)."""
    part = (noise >> 9).to(tl.float32) * 1.1920928955078125e-07
    steps = tl.floor(tl.abs(x) * 16777216.0 + part) * 5.9604644775390625e-08
    return tl.where(x < 0, -steps, steps)
