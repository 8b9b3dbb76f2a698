"""Pools of states for the probes: slots of NaN round those in use, and calls that work on them in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import hypot, sqrt

import torch
from torch import Tensor

from replaycheck_kernels.activation import log_decay
from replaycheck_kernels.contract import KdaOutput, run_on_slots
from replaycheck_kernels.error_model import Predicted
from replaycheck_kernels.precision import WORST_RMS

from .answer import Trial
from .association import PRECISION
from .subject import Case, Subject

SPARE = 3
"""Slots that nothing may touch, besides one between any two that are used."""


def make_pool(subject: Subject, first: Tensor, dtype: torch.dtype) -> tuple[list[int], Tensor]:
    """A pool [slots, HV, V, K] of NaN with initial states [R, HV, V, K] in every second slot, the last sequence first."""
    count = len(first)
    slots = [subject.found.can.first_slot + 2 * i + 1 for i in reversed(range(count))]
    pool = torch.full((max(slots) + SPARE, *first.shape[1:]), torch.nan, dtype=dtype, device=first.device)
    pool[slots] = first
    return slots, pool


def in_place(subject: Subject, case: Case, pool: Tensor, slots: Sequence[int]) -> Tensor:
    """o [N, HV, V] of the engine's call, or the contract's for a kernel without one."""
    recipe = subject.recipe(case.inputs)
    if subject.found.on_pool is None:
        return run_on_slots(subject.found.kernel, case.inputs, pool, slots, slots, (), recipe)
    return subject.found.on_pool(case.inputs, pool, slots, (), recipe).o


def from_pool(subject: Subject, case: Case, dtype: torch.dtype) -> tuple[Case, KdaOutput]:
    """Run in place on a pool of ``dtype``: the case with the states that the pool held first, and what came of it."""
    first = case.initial.to(dtype)
    slots, pool = make_pool(subject, first, dtype)
    o = in_place(subject, case, pool, slots)
    begun, wide = case.begun(first.to(case.initial.dtype)), pool[slots].to(case.initial.dtype)
    return begun, KdaOutput(o, wide, wide[:0])


def against_truth(subject: Subject, case: Case, dtype: torch.dtype) -> Trial:
    """Error of outputs and stored states from a pool, the rounding of the states in it included."""
    begun, found = from_pool(subject, case, dtype)
    return Trial(
        f"{case.name}, {pool_name(dtype)} pool", found, subject.truth(begun), partial(_rounded, subject, begun, dtype)
    )


def _rounded(subject: Subject, case: Case, dtype: torch.dtype) -> Predicted:
    """A call stores each state once, after its outputs; packed decode stores it after every token and reads it again."""
    predicted, once = subject.predicted(case), WORST_RMS[PRECISION[dtype]]
    if not decodes_in_place(subject):
        return Predicted(hypot(predicted.state, once), predicted.output)
    often = once * sqrt(_memory(subject, case))
    return Predicted(hypot(predicted.state, often), hypot(predicted.output, often))


def decodes_in_place(subject: Subject) -> bool:
    """Whether a call on a pool is one of the engine's calls for each token."""
    return subject.found.on_pool is not None and subject.found.kernel.form == "recurrent"


def _memory(subject: Subject, case: Case) -> float:
    """Tokens whose roundings a state still holds: Σ e^(−2gi) = 1 / (1 − e^(−2g)), of the slowest channel, at most all."""
    x = case.inputs
    g = -log_decay(x.a, x.A_log, x.dt_bias, subject.recipe(x), x.lower_bound).double().mean(0)
    return float((1 / (1 - torch.exp(-2 * g.clamp(min=1e-9)))).max().clamp(max=max(x.lengths())))


def pool_name(dtype: torch.dtype) -> str:
    """``fp32``, ``bf16`` or ``fp16``."""
    return str(PRECISION[dtype])
