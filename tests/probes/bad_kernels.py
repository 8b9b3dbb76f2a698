"""Kernels with one mistake each, made from ours: every property must notice the mistake that it is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.probes.subject import SMALL, Subject
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import (
    Forward,
    KdaInputs,
    KdaOutput,
    SnapshotRow,
    SnapshotSource,
    StateKernel,
    run_on_slots,
)
from replaycheck_kernels.providers import Capabilities, ModelKind, PoolForward, PoolResult, Provider, ProviderKernel
from replaycheck_kernels.recipe import Recipe

Mistake = Callable[[Forward], Forward]

CAN = Capabilities((), devices=frozenset({"cpu", "cuda"}))
SIZES = replace(SMALL, lengths=(70, 1, 64), regimes=("kimi",))
"""One decay where a property would take several, and six orders of a pack: less time, the same mistakes."""


def subject(
    mistake: Mistake | None = None,
    kernel: StateKernel = CHUNK_EMULATOR,
    pool: PoolForward | None = None,
    recipe: str = "sglang",
    can: Capabilities = CAN,
) -> Subject:
    """Our kernel with a mistake, as a provider of its own."""
    forward = mistake(kernel.forward) if mistake else kernel.forward
    made = replace(kernel, name="bad/kernel", forward=forward)
    found = ProviderKernel(ModelKind.KDA, made, can, pool)
    return Subject(Provider("bad", (found,)), found, asked=recipe, sizes=SIZES)


def changed(
    before: Callable[[KdaInputs, Tensor], tuple[KdaInputs, Tensor]] = lambda x, s: (x, s),
    after: Callable[[KdaInputs, Sequence[SnapshotRow], KdaOutput], KdaOutput] = lambda x, rows, output: output,
    recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe,
) -> Mistake:
    """A mistake in the arguments, in the results or in the recipe."""

    def wrap(forward: Forward) -> Forward:
        def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], claimed: Recipe) -> KdaOutput:
            return after(x, rows, forward(*before(x, initial), rows, recipe(claimed)))

        return call

    return wrap


def noisy(x: Tensor, size: float) -> Tensor:
    """Every second element moved by ``size`` of itself; always the same ones."""
    moved = x.clone()
    moved.view(-1)[::2] *= 1 + size
    return moved


returned_transposed = changed(
    after=lambda x, rows, o: replace(o, final=o.final.mT.contiguous()) if o.final.shape[-1] == o.final.shape[-2] else o
)
read_transposed = changed(
    before=lambda x, s: (x, s.mT.contiguous() if s.shape[-1] == s.shape[-2] else s),
)
starts_empty = changed(before=lambda x, s: (x, torch.zeros_like(s)))
beta_raw = changed(recipe=lambda recipe: replace(recipe, beta_site="nowhere"))
no_bias = changed(before=lambda x, s: (replace(x, dt_bias=torch.zeros_like(x.dt_bias)), s))
more_rounding = changed(after=lambda x, rows, o: replace(o, o=noisy(o.o, 0.05)))
overflowing = changed(
    after=lambda x, rows, o: replace(o, o=torch.where(o.o.abs() == o.o.abs().max(), torch.inf, o.o)),
)


def _clamped(x: KdaInputs, rows: Sequence[SnapshotRow], o: KdaOutput) -> KdaOutput:
    """What an exponent clamped at 2^126 does where a sub-chunk decays by more: half of the outputs are lost."""
    strong = x.lower_bound is None and float(x.dt_bias.min()) > 6
    return replace(o, o=torch.where(torch.arange(o.o.shape[-1]) % 2 == 0, 0.0, o.o)) if strong else o


clamped = changed(after=_clamped)


def from_chunk_state(forward: Forward) -> Forward:
    """An accumulator that is read from the per-chunk state, which has 16 bits (SGLang PR 34820)."""

    def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        other = [replace(r, source=SnapshotSource.CHUNK_STATE) for r in rows]
        return forward(x, initial, other, recipe)

    return call


def one_chunk_late(forward: Forward) -> Forward:
    """The snapshot of the chunk before."""

    def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        return forward(x, initial, [replace(r, chunk=max(0, r.chunk - 1)) for r in rows], recipe)

    return call


other_when_asked = changed(after=lambda x, rows, o: replace(o, o=noisy(o.o, 2.0**-8)) if rows else o)
batch_noise = changed(after=lambda x, rows, o: replace(o, o=noisy(o.o, 2.0**-8)) if x.sequences >= 8 else o)
batch_fault = changed(after=lambda x, rows, o: replace(o, o=noisy(o.o, 0.5)) if x.sequences >= 8 else o)
pack_noise = changed(after=lambda x, rows, o: replace(o, final=noisy(o.final, 2.0**-8)) if x.sequences > 1 else o)
pack_fault = changed(
    after=lambda x, rows, o: replace(o, final=o.final.roll(1, 0)) if x.sequences > 1 else o,
)
future_mean = changed(before=lambda x, s: (replace(x, k=x.k + x.k.mean(0)), s))


def middle(recipe: Recipe) -> Recipe:
    """The reference token of a diagonal block depends on how many tokens follow."""
    return replace(recipe, safe_diagonal="middle", diagonal="middle")


def unlike_itself(forward: Forward) -> Forward:
    """A race: the second call differs from the first in one bit."""
    calls: list[int] = []

    def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        output = forward(x, initial, rows, recipe)
        calls.append(1)
        if len(calls) % 2:
            return output
        o = output.o.clone()
        o.view(-1)[5] = torch.nextafter(o.view(-1)[5], torch.tensor(9.0))
        return replace(output, o=o)

    return call


def crashing(forward: Forward) -> Forward:
    def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        raise RuntimeError("illegal memory access\nat line 3")

    return call


def raising(text: str) -> Mistake:
    """A ValueError, as a refusal and as a crash."""

    def wrap(forward: Forward) -> Forward:
        def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
            raise ValueError(text)

        return call

    return wrap


def writes_arguments(forward: Forward) -> Forward:
    """Some kernels write o into v."""

    def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        output = forward(x, initial, rows, recipe)
        x.v[0] = 1.0
        return output

    return call


nan_spreads = changed(before=lambda x, s: (replace(x, v=x.v + 0 * x.v.sum()), s))
rounded_final = changed(after=lambda x, rows, o: replace(o, final=o.final.bfloat16().float()))


def rounding(**points: object) -> Mistake:
    """A kernel that rounds elsewhere than its recipe says."""
    return changed(recipe=lambda recipe: replace(recipe, **points))  # type: ignore[arg-type]


def pool_call(
    store: Callable[[Tensor, torch.dtype], Tensor] = lambda state, dtype: state.to(dtype), neighbour: bool = False
) -> PoolForward:
    """The engine's call in place, with another cast, or one that writes to the slot beside its own."""

    def call(
        x: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
    ) -> PoolResult:
        states = torch.stack([pool[slot].float() for slot in slots])
        output = CHUNK_EMULATOR(x, states, (), recipe)
        for slot, state in zip(slots, output.final, strict=True):
            pool[slot] = store(state, pool.dtype)
        if neighbour:
            pool[slots[0] + 1, 0, 0, 0] = 0.0
        return PoolResult(output.o)

    return call


def via_bf16(state: Tensor, dtype: torch.dtype) -> Tensor:
    return state.bfloat16().to(dtype)


def much_too_coarse(state: Tensor, dtype: torch.dtype) -> Tensor:
    """A sixteenth too large, in reduced pools only."""
    return state.to(dtype) if dtype is torch.float32 else (state * (1 + 2.0**-4 * torch.sign(state))).to(dtype)


def saturating(state: Tensor, dtype: torch.dtype) -> Tensor:
    return state.clamp(-65504, 65504).to(dtype)


def flushing(state: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.where(state.abs() < 2.0**-14, 0.0, state).to(dtype)


HONEST_POOL = pool_call()


def honest_slots(
    x: KdaInputs, pool: Tensor, slots: Sequence[int], rows: Sequence[SnapshotRow], recipe: Recipe
) -> PoolResult:
    """The contract's own call."""
    return PoolResult(run_on_slots(CHUNK_EMULATOR, x, pool, slots, slots, rows, recipe))


def provider() -> Provider:
    """``tests.probes.bad_kernels:provider``: one honest kernel, one that crashes, one that kills its process."""
    names = {"bad/honest": None, "bad/crashing": crashing, "bad/dying": dying}
    kernels = []
    for name, mistake in names.items():
        found = subject(mistake, kernel=RECURRENT_CPU).found
        kernels.append(replace(found, kernel=replace(found.kernel, name=name)))
    return Provider("bad", tuple(kernels), version="1", tested=("2",), unavailable={"bad/absent": "no file"})


def dying(forward: Forward) -> Forward:
    """A segmentation fault where a snapshot is asked for, as far as Python can tell."""

    def call(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        if rows:
            import os

            os._exit(11)
        return forward(x, initial, rows, recipe)

    return call


def empty() -> Provider:
    """``tests.probes.bad_kernels:empty``: nothing could be loaded."""
    return Provider("empty", (), unavailable={"bad/absent": "no file"})
