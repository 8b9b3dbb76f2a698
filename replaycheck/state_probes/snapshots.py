"""What a store writes: one direct cast of the fp32 accumulator, on a real model's states and inside kernel calls.

A call on a pool of some dtype is held against a second one on the same inputs and the same restored bytes, whose pool is
fp32 and which ends where the snapshot is taken: its final state, cast once, must be what the first call stored.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import torch
from torch import Tensor

from replaycheck.probes.collection import real_states
from replaycheck.probes.double_rounding import probe_double_rounding
from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.pool import TORCH_DTYPE
from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource, run_on_slots
from replaycheck_kernels.grid import chunk_starts
from replaycheck_kernels.precision import round_to

from .found import Check, Found, broken, cannot, exact
from .groups import GROUPS
from .subject import Subject

__all__ = ["checks"]

LENGTHS = (64, 65, 130, 193)
"""Ends on the grid and off it; one to three boundaries inside."""
HEADS, KEY, VALUE = 2, 64, 96
FORMS = ("chunk", "recurrent")
ONCE = "one direct cast of the fp32 accumulator, element by element"


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    rows = [
        Check(f"snapshot-{form}-{pool}", "snapshots", ONCE, _snapshots(form, pool))
        for form in FORMS
        for pool in PoolDtype
    ]
    return [Check("double-rounding", "snapshots", ONCE, _real), *rows]


def _real(subject: Subject) -> Found:
    """The lab's cast on the accumulators of a model at the end of the longest prompt."""
    network, groups = subject.network, list(GROUPS.values())
    if subject.model is not None:
        kernels = lab_kernels(KernelChoice(device=subject.device), subject.recipe).kernels()
        network, groups = Network(subject.model, subject.recipe, kernels, subject.device), list(subject.groups)

    def on_device(state: Tensor, dtype: torch.dtype) -> Tensor:
        return subject.store(state.to(network.device), dtype).cpu()

    probe = probe_double_rounding(real_states(network, groups), on_device)
    values = {name: value for name, value in probe.values.items() if value is not None}
    if probe.verdict == "pass":
        return Found("exact", probe.sentence, values=values)
    wrong, elements = probe.values["probe_values_wrong"], probe.values["elements_wrong"]
    example = f"{wrong} of 2 values just over half-way between two fp16 or bf16, and {elements} real elements"
    return Found("broken", probe.sentence, example, values)


def _snapshots(form: str, pool: PoolDtype) -> Callable[[Subject], Found]:
    def look(subject: Subject) -> Found:
        kernel = subject.kernels[form]
        if SnapshotSource.ACCUMULATOR not in kernel.sources:
            return cannot(f"{kernel.name} has no snapshot of the accumulator inside a call")
        count = 0
        for length in LENGTHS:
            x = _inputs(subject, (3, length))
            for chunk, cut in enumerate([*chunk_starts(length, 0, subject.recipe)[1:], length], 1):
                wrong = _wrong(subject, form, pool, x, chunk, cut)
                if wrong:
                    where = "final state" if cut == length else f"snapshot at {cut}"
                    example = f"{length} tokens after one of 3, {where}: {wrong} elements"
                    return broken(f"{kernel.name} stores something else than the accumulator, cast once", example)
                count += 1
        sentence = f"{kernel.name}: {count} snapshots and final states of {min(LENGTHS)} to {max(LENGTHS)} tokens"
        return exact(sentence, stored=count)

    return look


def _wrong(subject: Subject, form: str, pool: PoolDtype, x: KdaInputs, chunk: int, cut: int) -> int:
    """Elements that a store of row 1 gets wrong: its snapshot at ``cut``, or its final state there."""
    kernel, dtype, length = subject.kernels[form], TORCH_DTYPE[pool], x.lengths()[1]
    draws = torch.Generator().manual_seed(length)
    slots = torch.randn(6, HEADS, VALUE, KEY, generator=draws).mul(0.3).to(dtype).to(subject.device)
    live = slots.to(torch.float32)
    rows = [SnapshotRow(1, chunk, 5, SnapshotSource.ACCUMULATOR)] if cut < length else []
    run_on_slots(kernel, x, slots, (1, 2), (3, 4), rows, subject.recipe)
    run_on_slots(kernel, _cut(x, cut), live, (1, 2), (3, 4), (), subject.recipe)
    found, wanted = slots[5 if rows else 4], live[4].to(dtype)
    return int((found != wanted).sum())


def _cut(x: KdaInputs, tokens: int) -> KdaInputs:
    """Row 0, and the first ``tokens`` of row 1."""
    end = x.offsets[1] + tokens
    parts = {name: getattr(x, name)[:end] for name in ("q", "k", "v", "a", "b")}
    return KdaInputs(**parts, A_log=x.A_log, dt_bias=x.dt_bias, offsets=(0, x.offsets[1], end))


def _inputs(subject: Subject, lengths: tuple[int, ...]) -> KdaInputs:
    """Random activations; decays of A in U(1, 16) and dt in 0.001 to 0.1, as Kimi Linear is initialised."""
    draws = torch.Generator().manual_seed(subject.seed)
    tokens = sum(lengths)

    def normal(*shape: int) -> Tensor:
        return round_to(torch.randn(*shape, generator=draws), subject.recipe.activation)

    steps = (torch.rand(HEADS, KEY, generator=draws) * 4.6 - 6.9).exp()
    return KdaInputs(
        q=normal(tokens, HEADS, KEY),
        k=normal(tokens, HEADS, KEY),
        v=normal(tokens, HEADS, VALUE),
        a=normal(tokens, HEADS, KEY),
        b=normal(tokens, HEADS),
        A_log=(1 + 15 * torch.rand(HEADS, generator=draws)).log(),
        dt_bias=steps.expm1().log(),
        offsets=(0, *accumulate(lengths)),
    ).to(subject.device)
