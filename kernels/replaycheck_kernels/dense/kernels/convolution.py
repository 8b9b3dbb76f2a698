"""Short causal depthwise convolution with SiLU over packed sequences, and the windows that are its state."""

import triton
import triton.language as tl

from .rounding import inverse_logistic, rounded

INDICES = ["offsets", "rows", "ends"]


@triton.jit
def line(x, state, begin, row, token, columns, wanted, state_stride4, D: tl.constexpr, W: tl.constexpr):
    """Inputs of a sequence at ``token`` (relative to its first; negative: in the state, of which the last is −1).

    begin, row, token: [n, 1]; columns [1, BD]; wanted [n, BD]; begin: the sequence's first row of x.
    """
    fresh = tl.load(x + (begin + token).to(tl.int64) * D + columns, mask=wanted & (token >= 0), other=0.0)
    place = row.to(tl.int64) * (state_stride4 * 4) + (token + W - 1) * D + columns
    return tl.where(token >= 0, fresh, tl.load(state + place, mask=wanted & (token < 0), other=0.0))


@triton.jit(do_not_specialize=["N", "state_stride4"], do_not_specialize_on_alignment=INDICES)
def convolution_kernel(
    x,
    weight,
    state,
    offsets,
    rows,
    out,
    N,
    state_stride4,
    D: tl.constexpr,
    W: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """x [N, D]; weight [D, W]; state [R, W − 1, D], 4·state_stride4 a sequence; rows [N]: sequence of each token."""
    COLUMNS: tl.constexpr = (D + BD - 1) // BD
    n = (tl.program_id(0) // COLUMNS) * BT + tl.arange(0, BT)[:, None]
    columns = (tl.program_id(0) % COLUMNS) * BD + tl.arange(0, BD)[None, :]
    wanted = (n < N) & (columns < D)
    row = tl.load(rows + n, mask=n < N, other=0)
    begin = tl.load(offsets + row, mask=n < N, other=0)
    total = tl.zeros((BT, BD), tl.float32)
    for j in tl.static_range(W):
        tap = tl.load(weight + columns * W + j, mask=columns < D, other=0.0)
        total += line(x, state, begin, row, n - begin - (W - 1 - j), columns, wanted, state_stride4, D, W) * tap
    value = rounded(total / inverse_logistic(total), PRECISION)
    tl.store(out + n.to(tl.int64) * D + columns, value, mask=wanted)


@triton.jit(do_not_specialize=["state_stride4"], do_not_specialize_on_alignment=INDICES)
def window_kernel(
    x, state, offsets, rows, ends, out, state_stride4, D: tl.constexpr, W: tl.constexpr, BD: tl.constexpr
):
    """out [Q, W − 1, D]: the inputs of sequence rows[q] that end with its token ends[q]; one (q, place) a program row."""
    COLUMNS: tl.constexpr = (D + BD - 1) // BD
    # A block of one, not a scalar: Triton 3.9's interpreter refuses a scalar condition in a mask.
    place = tl.program_id(0) // COLUMNS + tl.arange(0, 1)[:, None]
    columns = (tl.program_id(0) % COLUMNS) * BD + tl.arange(0, BD)[None, :]
    row = tl.load(rows + place // (W - 1))
    token = tl.load(ends + place // (W - 1)) - (W - 1) + place % (W - 1)
    value = line(x, state, tl.load(offsets + row), row, token, columns, columns < D, state_stride4, D, W)
    tl.store(out + place.to(tl.int64) * D + columns, value, mask=columns < D)
