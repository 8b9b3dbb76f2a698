"""Checks of the dense kernels that run in a process of their own: ``python -m tests.kernels.dense.checks cpu|cuda``.

On the CPU they run in Triton's interpreter with the bf16 repair, which changes Triton for the whole process. Each check
prints a line of JSON: {check, ratio}, the worst error over its bound, or {check, differ}, the elements whose bits differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from replaycheck_kernels import dense
from replaycheck_kernels.precision import Precision, round_to
from tests.kernels.dense import references

FP32, BF16, FP16 = Precision.FP32, Precision.BF16, Precision.FP16
EPSILON = 1e-5
Line = dict[str, object]


class Draws:
    """Random tensors on one device."""

    def __init__(self, device: str, seed: int = 0) -> None:
        self.device = device
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, on: Precision = FP32, size: float = 1.0) -> Tensor:
        x = torch.randn(*shape, generator=self._generator) * size
        return round_to(x, on).to(self.device)

    def integers(self, values: Sequence[int], dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    def shuffled(self, n: int) -> Tensor:
        return torch.randperm(n, generator=self._generator).to(self.device)


def ratio(found: Tensor, expected: references.Bounded) -> float:
    """Worst error over its bound; infinite if a value isn't finite."""
    value, bound = expected
    worst = ((found.double() - value.to(found.device)).abs() / bound.to(found.device)).max()
    return float(worst) if bool(found.isfinite().all()) else float("inf")


def differ(x: Tensor, y: Tensor) -> int:
    """Elements whose bits differ."""
    assert x.shape == y.shape, (x.shape, y.shape)
    return int((x.contiguous().view(torch.int32) != y.contiguous().view(torch.int32)).sum())


def row_changes(operation: Callable[..., Tensor], parts: Sequence[Tensor], counts: Sequence[int], order: Tensor) -> int:
    """Bits that change when rows are computed alone, in packs of other sizes, in another order, or beside NaN.

    Args:
        operation: of tensors [N, ...], row by row. parts: its arguments. counts: sizes of packs, the first rows of parts.
        order: a permutation of the N rows.
    """
    whole = operation(*parts)
    total = sum(differ(operation(*(p[:n].clone() for p in parts)), whole[:n]) for n in counts)
    total += sum(differ(operation(*(p[n : n + 1] for p in parts)), whole[n : n + 1]) for n in (0, 1, len(order) - 1))
    total += differ(operation(*(p[order] for p in parts)), whole[order])
    poisoned = [p.clone() for p in parts]
    for p in poisoned:
        p[1::2] = float("nan")
    return total + differ(operation(*poisoned)[::2], whole[::2])


def rounds_once(operation: Callable[[Precision], Tensor]) -> int:
    """Elements of the bf16 and fp16 results that aren't the fp32 result rounded to nearest."""
    full = operation(FP32)
    return sum(differ(operation(p), round_to(full, p)) for p in (BF16, FP16))


#: Rows on both sides of the tiles of 64 and 16.
COUNTS = (1, 2, 15, 17, 63, 64, 65)
ROWS = 70


def check_linear(device: str) -> Iterator[tuple[str, Line]]:
    for IN, OUT, grid in ((24, 72, BF16), (136, 2, BF16), (64, 64, FP16), (24, 72, FP32), (136, 8, FP32)):
        d = Draws(device)
        x, raw = d.normal(ROWS, IN, on=grid), d.normal(OUT, IN, on=grid, size=0.1)
        weight, name = dense.prepare_weight(raw, grid), f"linear-{grid}-{IN}-{OUT}"
        assert (weight.dtype is torch.float32) == (grid is FP32)
        yield f"{name}-error", {"ratio": ratio(dense.linear(x, weight, FP32), references.linear(x, raw))}
        run = lambda rows, weight=weight: dense.linear(rows, weight, FP32)  # noqa: E731
        yield f"{name}-rows", {"differ": row_changes(run, [x], COUNTS, d.shuffled(ROWS))}
        wide = torch.full((ROWS, IN + 4), float("nan"), device=device)
        wide[:, :IN] = x
        yield f"{name}-view", {"differ": differ(run(wide[:, :IN]), run(x))}
        if IN == 24:
            yield f"{name}-rounding", {"differ": rounds_once(lambda p, x=x, w=weight: dense.linear(x, w, p))}


def check_norms(device: str) -> Iterator[tuple[str, Line]]:
    for D in (8, 48, 512):
        d = Draws(device)
        x, gate, weight = d.normal(9, 2, D, size=3), d.normal(9, 2, D, size=8), d.normal(D)
        plain, gated = dense.rms_norm(x, weight, EPSILON, FP32), dense.gated_rms_norm(x, gate, weight, EPSILON, FP32)
        yield f"norm-{D}-error", {"ratio": ratio(plain, references.rms_norm(x, weight, EPSILON))}
        yield f"gated-{D}-error", {"ratio": ratio(gated, references.gated_rms_norm(x, gate, weight, EPSILON))}
        run = lambda *rows, w=weight: dense.rms_norm(*rows, w, EPSILON, FP32)  # noqa: E731
        yield f"norm-{D}-rows", {"differ": row_changes(run, [x], (2, 5), d.shuffled(9))}
        run = lambda *rows, w=weight: dense.gated_rms_norm(*rows, w, EPSILON, FP32)  # noqa: E731
        yield f"gated-{D}-rows", {"differ": row_changes(run, [x, gate], (2, 5), d.shuffled(9))}
    run = lambda p: dense.gated_rms_norm(x, gate, weight, EPSILON, p)  # noqa: E731
    yield "gated-rounding", {"differ": rounds_once(run)}
    wide = torch.full((9, 2, 520), float("nan"), device=device)
    for name, source, run in (
        ("norm-view", x, lambda y: dense.rms_norm(y, weight, EPSILON, FP32)),
        ("gated-view", gate, lambda y: dense.gated_rms_norm(x, y, weight, EPSILON, FP32)),
    ):
        wide[..., :512] = source
        yield name, {"differ": differ(run(wide[..., :512]), run(source))}


def check_elementwise(device: str) -> Iterator[tuple[str, Line]]:
    d = Draws(device)
    both = d.normal(9, 96, on=BF16, size=8)
    gate, up = both.chunk(2, 1)
    yield "swiglu-error", {"ratio": ratio(dense.swiglu(gate, up, FP32), references.swiglu(gate, up))}
    yield "add-error", {"ratio": ratio(dense.add_rounded(gate, up, FP32), references.add(gate, up))}
    for name, operation in (("swiglu", dense.swiglu), ("add", dense.add_rounded)):
        run = lambda x, y, f=operation: f(x, y, FP32)  # noqa: E731
        yield f"{name}-rows", {"differ": row_changes(run, [gate, up], (2, 5), d.shuffled(9))}
        yield f"{name}-rounding", {"differ": rounds_once(lambda p, f=operation: f(gate, up, p))}
        packed = operation(gate.contiguous(), up.contiguous(), FP32)
        mixed = differ(operation(gate, up.contiguous(), FP32), packed) + differ(
            operation(gate.contiguous(), up, FP32), packed
        )
        yield f"{name}-view", {"differ": mixed}
    odd = d.normal(5, 7)
    yield "add-odd", {"ratio": ratio(dense.add_rounded(odd, odd, FP32), references.add(odd, odd))}


LENGTHS = (3, 1, 0, 9, 2)


def check_convolution(device: str) -> Iterator[tuple[str, Line]]:
    for D, W in ((24, 4), (136, 4), (8, 2)):
        d, offsets = Draws(device), [0, *accumulate(LENGTHS)]
        x, weight, state = d.normal(15, D, size=2), d.normal(D, W), d.normal(5, W - 1, D)
        table, name = d.integers(offsets), f"convolution-{D}-{W}"
        whole = dense.short_convolution(x, weight, state, table, FP32)
        yield f"{name}-error", {"ratio": ratio(whole, references.convolution(x, weight, state, offsets))}
        yield f"{name}-alone", {"differ": _alone(x, weight, state, offsets, whole)}
        poison = x.clone()
        poison[:4] = float("nan")
        found = dense.short_convolution(poison, weight, state, table, FP32)
        yield f"{name}-neighbours", {"differ": differ(found[4:], whole[4:])}
        run = lambda p, a=(x, weight, state, table): dense.short_convolution(*a, p)  # noqa: E731
        yield f"{name}-rounding", {"differ": rounds_once(run)}
        rows, ends = [0, 0, 0, 1, 2, 3, 3, 3, 4], [0, 1, 3, 1, 0, 2, 5, 9, 1]
        layers = torch.stack([state, state + 1], 1)
        found = dense.conv_windows(x, layers[:, 0], table, d.integers(rows), d.integers(ends))
        yield f"{name}-windows", {"differ": differ(found, references.windows(x, state, offsets, rows, ends))}


def _alone(x: Tensor, weight: Tensor, state: Tensor, offsets: Sequence[int], whole: Tensor) -> int:
    """Bits that change when a sequence is computed by itself, and when it is cut after its first two tokens."""
    total = 0
    for r, (begin, end) in enumerate(pairwise(offsets)):
        before = state[r : r + 1]
        for first, last in ((begin, min(begin + 2, end)), (min(begin + 2, end), end)):
            table = torch.tensor([0, last - first], device=x.device)
            part = dense.short_convolution(x[first:last], weight, before, table, FP32)
            total += differ(part, whole[first:last])
            before = dense.conv_windows(x[first:last], before, table, torch.zeros_like(table[:1]), table[1:])
    return total


class Cache:
    """Sequences over shuffled pages of one store; pages that belong to nobody hold NaN."""

    def __init__(
        self, d: Draws, totals: Sequence[int], fresh: Sequence[int], shape: tuple[int, int, int], on: Precision
    ) -> None:
        H, D, V = shape
        dtype = torch.bfloat16 if on is BF16 else torch.float32
        self.keys, self.values = (d.normal(2 * sum(totals), H, size, on=on).to(dtype) for size in (D, V))
        self.q = d.normal(sum(fresh), H, D, on=on)
        self.pages = d.shuffled(2 * sum(totals))[: sum(totals)]
        self.scale, self.block = D**-0.5, 64 if on is BF16 else 32
        unused = torch.ones(2 * sum(totals), dtype=torch.bool, device=d.device)
        unused[self.pages] = False
        self.keys[unused], self.values[unused] = float("nan"), float("nan")
        bases, self.offsets = [0, *accumulate(totals)], [0, *accumulate(fresh)]
        self.start = d.integers([base for base, n in zip(bases, fresh, strict=False) for _ in range(n)])
        seen = [t for total, n in zip(totals, fresh, strict=True) for t in range(total - n + 1, total + 1)]
        self.visible = d.integers(seen)

    def run(self, order: Tensor | None = None, offsets: Sequence[int] | None = None) -> Tensor:
        """Attention of all queries in blocks, or of some, in blocks of the given offsets or one by one."""
        cut = slice(None) if order is None else order
        table = torch.tensor(offsets, device=self.q.device) if offsets is not None else None
        q = self.q[cut]
        blocks = None if table is None else dense.query_blocks(table, q.shape[0])
        return dense.attend(
            q, self.keys, self.values, self.pages, self.start[cut], self.visible[cut], self.scale, blocks
        )

    def reference(self) -> references.Bounded:
        values, bounds = [], []
        for n, (start, count) in enumerate(zip(self.start.tolist(), self.visible.tolist(), strict=True)):
            own = self.pages[start : start + count]
            value, bound = references.attention(self.q[n], self.keys[own], self.values[own], self.scale, self.block)
            values.append(value)
            bounds.append(bound)
        return torch.stack(values), torch.stack(bounds)


def check_attention(device: str) -> Iterator[tuple[str, Line]]:
    for on in (BF16, FP32):
        for D, V in ((48, 32), (16, 80)):
            d, name = Draws(device), f"attention-{on}-{D}-{V}"
            cache = Cache(d, (1, 40, 131, 64), (1, 18, 5, 2), (2, D, V), on)
            whole = cache.run(offsets=cache.offsets)
            yield f"{name}-error", {"ratio": ratio(whole, cache.reference())}
            yield f"{name}-single", {"differ": differ(cache.run(), whole)}
            order = d.shuffled(whole.shape[0])
            yield f"{name}-order", {"differ": differ(cache.run(order), whole[order])}
            # The last three sequences' queries from the second on: other blocks, other places in them.
            some = torch.tensor([*range(2, 19), *range(20, 24), 25], device=device)
            yield f"{name}-regrouped", {"differ": differ(cache.run(some, (0, 17, 21, 22)), whole[some])}
        few = Cache(d, (3,), (3,), (1, 16, 16), on)
        few.q[..., 1:] = 0
        # Three keys and one product a score: the bound is under 2^-18, so two bf16 terms of a weight wouldn't do.
        yield f"attention-{on}-weights", {"ratio": ratio(few.run(), few.reference())}


CHECKS = (check_linear, check_norms, check_elementwise, check_convolution, check_attention)


def main(device: str) -> int:
    torch.set_num_threads(1)
    if device == "cpu":
        from replaycheck_kernels.providers.interpreter import repair_triton

        repair_triton()
    for check in CHECKS:
        for name, line in check(device):
            print(json.dumps({"check": name} | line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
