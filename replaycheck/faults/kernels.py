"""Faults of kernels: a provider's kernel in, one that errs out. The arithmetic is right; what is returned or read isn't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel, concatenate
from replaycheck_kernels.grid import chunk_starts
from replaycheck_kernels.recipe import Recipe

__all__ = ["altered", "floor_rows", "gates_in_batch_order", "no_restore", "one_token_off",
           "out_of_bounds", "rotated_rows", "rounds_each_chunk", "series_inverse", "transposed",
           "zeroed_snapshots"]  # fmt: skip

ProviderFault = Callable[[StateKernel], StateKernel]
Before = Callable[[KdaInputs, Tensor], tuple[KdaInputs, Tensor]]
After = Callable[[KdaInputs, Sequence[SnapshotRow], KdaOutput], KdaOutput]


def _same_inputs(x: KdaInputs, initial: Tensor) -> tuple[KdaInputs, Tensor]:
    return x, initial


def _same_output(x: KdaInputs, rows: Sequence[SnapshotRow], output: KdaOutput) -> KdaOutput:
    return output


def altered(before: Before = _same_inputs, after: After = _same_output, form: str = "") -> ProviderFault:
    """A kernel with a mistake in what it reads or returns. ``form``: only kernels of that form have it."""

    def fault(kernel: StateKernel) -> StateKernel:
        if form and kernel.form != form:
            return kernel

        def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
            return after(x, rows, kernel.forward(*before(x, initial), rows, recipe))

        return replace(kernel, forward=forward)

    return fault


def _snapshots(changed: Callable[[Tensor], Tensor]) -> After:
    return lambda x, rows, output: replace(output, snapshots=changed(output.snapshots)) if rows else output


transposed = altered(after=_snapshots(lambda states: states.mT.contiguous()), form="chunk")
"""F32, B89: snapshots come in the other layout. K = V, so that no shape says so."""

final_transposed = altered(after=lambda x, rows, o: replace(o, final=o.final.mT.contiguous()), form="chunk")
"""The same for every state that a call leaves."""

zeroed_snapshots = altered(after=_snapshots(torch.zeros_like), form="chunk")
"""F20, B01: the kernel accepts the request for snapshots and writes none; the slots hold zeros."""

heads_turned = altered(after=_snapshots(lambda states: states.roll(1, 1)), form="chunk")
"""F33: the states of heads in another order."""


def _empty(x: KdaInputs, initial: Tensor) -> tuple[KdaInputs, Tensor]:
    return x, torch.zeros_like(initial)


no_restore = altered(before=_empty, form="chunk")
"""B53: a call of several tokens ignores the state that it is given."""


def _after(kernel: StateKernel, x: KdaInputs, initial: Tensor, recipe: Recipe, sequence: int, tokens: int) -> Tensor:
    """The state after so many tokens of a sequence: [HV, V, K]."""
    whole = x.between(sequence, sequence + 1)
    part = {name: getattr(whole, name)[:tokens] for name in ("q", "k", "v", "a", "b")}
    cut = replace(whole, **part, offsets=(0, tokens))
    return kernel.forward(cut, initial[sequence : sequence + 1], (), recipe).final[0]


def one_token_off(by: int) -> ProviderFault:
    """F23, B75: a snapshot holds so many tokens more or less than its chunk's start; the conv window is right."""

    def fault(kernel: StateKernel) -> StateKernel:
        if kernel.form != "chunk":
            return kernel

        def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
            output = kernel.forward(x, initial, rows, recipe)
            snapshots = output.snapshots.clone()
            for i, row in enumerate(rows):
                if row.source is SnapshotSource.ACCUMULATOR:
                    length = x.lengths()[row.sequence]
                    start = chunk_starts(length, x.start(row.sequence), recipe)[row.chunk]
                    tokens = min(max(start + by, 1), length)
                    snapshots[i] = _after(kernel, x, initial, recipe, row.sequence, tokens)
            return replace(output, snapshots=snapshots)

        return replace(kernel, forward=forward)

    return fault


def _asked(change: Callable[[KdaInputs, SnapshotRow], SnapshotRow]) -> ProviderFault:
    """Snapshots are read at another place of the kernel's buffer."""

    def fault(kernel: StateKernel) -> StateKernel:
        def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
            return kernel.forward(x, initial, [change(x, row) for row in rows], recipe)

        return replace(kernel, forward=forward)

    return fault


def _chunks(x: KdaInputs) -> list[int]:
    return [-(-length // 64) for length in x.lengths()]


def _sibling(x: KdaInputs, row: SnapshotRow) -> SnapshotRow:
    other = (row.sequence + 1) % x.sequences
    return replace(row, sequence=other, chunk=min(row.chunk, _chunks(x)[other] - 1))


rotated_rows = _asked(_sibling)
"""F21: the rows of a batch are turned by one, so each snapshot is a sibling's."""


def _floored(x: KdaInputs, row: SnapshotRow) -> SnapshotRow:
    """The row of the chunk that the offset leads to, counted in chunks of all sequences."""
    if row.source is not SnapshotSource.ACCUMULATOR:
        return row
    at = sum(length // 64 for length in x.lengths()[: row.sequence]) + row.chunk
    for sequence, count in enumerate(_chunks(x)):
        if at < count:
            return replace(row, sequence=sequence, chunk=at)
        at -= count
    return row


floor_rows = _asked(_floored)
"""F22: a sequence's first chunk is sought after ⌊n/64⌋ chunks of each sequence before it instead of ⌈n/64⌉."""


def rounds_each_chunk(dtype: torch.dtype) -> ProviderFault:
    """F7, B85: the carried state goes through the pool's dtype at every chunk instead of once at the end."""

    def fault(kernel: StateKernel) -> StateKernel:
        if kernel.form != "chunk":
            return kernel

        def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
            parts = [_by_chunk(kernel, x, initial, rows, recipe, r, dtype) for r in range(x.sequences)]
            order = [i for r in range(x.sequences) for i, row in enumerate(rows) if row.sequence == r]
            together = concatenate(parts)
            back = torch.tensor([order.index(i) for i in range(len(rows))], dtype=torch.long)
            return replace(together, snapshots=together.snapshots[back])

        return replace(kernel, forward=forward)

    return fault


def _by_chunk(
    kernel: StateKernel,
    x: KdaInputs,
    initial: Tensor,
    rows: Sequence[SnapshotRow],
    recipe: Recipe,
    sequence: int,
    dtype: torch.dtype,
) -> KdaOutput:
    """One sequence chunk by chunk, its state rounded in between."""
    whole, state = x.between(sequence, sequence + 1), initial[sequence : sequence + 1]
    starts, outputs = [state], []
    for begin in range(0, whole.offsets[-1], 64):
        end = min(begin + 64, whole.offsets[-1])
        part = {name: getattr(whole, name)[begin:end] for name in ("q", "k", "v", "a", "b")}
        done = kernel.forward(replace(whole, **part, offsets=(0, end - begin)), state, (), recipe)
        state = done.final.to(dtype).to(done.final.dtype)
        starts.append(state)
        outputs.append(done.o)
    mine = [row for row in rows if row.sequence == sequence]
    taken = [state if row.source is SnapshotSource.FINAL else starts[row.chunk] for row in mine]
    return KdaOutput(torch.cat(outputs), state, torch.cat(taken) if taken else state[:0])


def gates_in_batch_order(kernel: StateKernel) -> StateKernel:
    """B24: q, k and v are gathered for the rows of a call, decay and beta aren't: they are those of the tokens before."""

    def misaligned(x: KdaInputs, initial: Tensor) -> tuple[KdaInputs, Tensor]:
        if x.sequences < 2:
            return x, initial
        return replace(x, a=x.a.roll(x.lengths()[0], 0), b=x.b.roll(x.lengths()[0], 0)), initial

    return altered(before=misaligned)(kernel)


def _first_only(x: KdaInputs, initial: Tensor) -> tuple[KdaInputs, Tensor]:
    """Every token after the first of a sequence has a beta of σ(−1e4) = 0 and no decay: it is lost."""
    a, b = x.a.clone(), x.b.clone()
    for begin, end in zip(x.offsets, x.offsets[1:], strict=False):
        if bool(initial.any()):
            a[begin + 1 : end], b[begin + 1 : end] = -1e4, -1e4
    return replace(x, a=a, b=b), initial


first_token_only = altered(before=_first_only, form="chunk")
"""B54: a call on a filled cache takes the first token's step and drops those of the others."""


def out_of_bounds(value: float) -> ProviderFault:
    """B64: a row of channels is read past its end, and what lies there comes into the decay of the last channel."""

    def junk(x: KdaInputs, initial: Tensor) -> tuple[KdaInputs, Tensor]:
        a = x.a.clone()
        a[..., -1] = value
        return replace(x, a=a), initial

    return altered(before=junk, form="chunk")


def series_inverse(kernel: StateKernel) -> StateKernel:
    """B87: the inverse of a chunk's triangle as a product series in fp16, which overflows where keys are nearly parallel.

    What overflows there is the state of the sequences whose keys have a mean cosine above 0.9.
    """

    def collapse(x: KdaInputs, rows: Sequence[SnapshotRow], output: KdaOutput) -> KdaOutput:
        k = torch.nn.functional.normalize(x.k.float(), dim=-1)
        o, final = output.o.clone(), output.final.clone()
        for r, (begin, end) in enumerate(zip(x.offsets, x.offsets[1:], strict=False)):
            mean = k[begin:end].mean(0).norm(dim=-1)
            if end - begin > 1 and float(mean.max()) > 0.9**0.5:
                o[begin:end], final[r] = torch.inf, torch.inf
        return replace(output, o=o, final=final)

    return altered(after=collapse, form="chunk")(kernel)


def nan_for_one_token(kernel: StateKernel) -> StateKernel:
    """B19: an operator outside the state gives NaN for calls of one row on the prefill path; the state is right."""

    def spoil(x: KdaInputs, rows: Sequence[SnapshotRow], output: KdaOutput) -> KdaOutput:
        o = output.o.clone()
        for begin, end in zip(x.offsets, x.offsets[1:], strict=False):
            if end - begin == 1:
                o[begin:end] = torch.nan
        return replace(output, o=o)

    return altered(after=spoil, form="chunk")(kernel)


def reads_the_wrong_row(kernel: StateKernel) -> StateKernel:
    """B51: a call takes its states by the rows of the step before: once there were more sequences, rows are turned."""
    most = [0]

    def turned(x: KdaInputs, initial: Tensor) -> tuple[KdaInputs, Tensor]:
        fewer, most[0] = x.sequences < most[0], max(most[0], x.sequences)
        return x, initial.roll(1, 0) if fewer and x.sequences > 1 else initial

    return altered(before=turned, form="recurrent")(kernel)
