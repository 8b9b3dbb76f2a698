"""The operations on pools behind one interface: torch on any device, Triton on a GPU or in its interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..recipe import Recipe
from . import commit, conv_window
from .commit import CommitPlan, Decays
from .conv_window import put
from .copies import CopyPlan, copy_conv, copy_temporal
from .verify import Records, Verified
from .verify import verify as verify_states
from .window import Windows


@dataclass(frozen=True)
class Backend:
    """Calls of one implementation.

    Attributes:
        verify: (windows, pool [S, HV, V, K], slots [R], recipe) → outputs and records; the pool isn't written.
        plan: as ``commit.plan_commit``.
        rebuild: (pool [L, S, HV, V, K], records of all layers [L, R, …], plan, decays of all layers, recipe, aligned).
        compact: (conv [L, S, E, D], plan, history, aligned).
        copy: ((temporal from, to), (conv from, to), plan, history).
    """

    name: str
    verify: Callable[[Windows, Tensor, Tensor, Recipe], Verified]
    plan: Callable[..., CommitPlan]
    rebuild: Callable[[Tensor, Records, CommitPlan, Decays, Recipe, bool], None]
    compact: Callable[[Tensor, CommitPlan, int, bool], None]
    copy: Callable[[tuple[Tensor, Tensor], tuple[Tensor, Tensor], CopyPlan, int], None]


def _verify(window: Windows, pool: Tensor, slots: Tensor, recipe: Recipe) -> Verified:
    return verify_states(window, _live(pool[slots]), recipe)


def _live(stored: Tensor) -> Tensor:
    return stored.to(torch.float64 if stored.dtype is torch.float64 else torch.float32)


def _rebuild(pool: Tensor, records: Records, plan: CommitPlan, decays: Decays, recipe: Recipe, aligned: bool) -> None:
    for layer, states in enumerate(pool):
        mine = Records(records.correction[layer], records.key[layer], records.decay[layer])
        rule = Decays(decays.A_log[layer], decays.dt_bias[layer], decays.lower_bound)
        checkpoint = _live(states[plan.source])
        if aligned:
            put(states, plan.boundary, commit.rebuild(checkpoint, mine, plan.boundary_length, rule, recipe))
        put(states, plan.final, commit.rebuild(checkpoint, mine, plan.length, rule, recipe))


def _compact(conv: Tensor, plan: CommitPlan, history: int, aligned: bool) -> None:
    for windows in conv:
        conv_window.compact(windows, plan, history)


def _copy(temporal: tuple[Tensor, Tensor], conv: tuple[Tensor, Tensor], plan: CopyPlan, history: int) -> None:
    copy_temporal(*temporal, plan)
    copy_conv(*conv, plan, history)


TORCH = Backend("torch", _verify, commit.plan_commit, _rebuild, _compact, _copy)


def triton_backend() -> Backend:
    """The Triton kernels.

    Raises:
        ModuleNotFoundError: Triton isn't installed.
    """
    from .triton.commit import compact, plan_commit, rebuild
    from .triton.copies import copy_slots
    from .triton.verify import verify

    return Backend("triton", verify, plan_commit, rebuild, compact, copy_slots)


def stack(records: list[Records]) -> Records:
    """Records of all layers, [L, R, …]."""
    parts = zip(*((r.correction, r.key, r.decay) for r in records), strict=True)
    return Records(*(torch.stack(part) for part in parts))


BACKENDS: dict[str, Callable[[], Backend]] = {"torch": lambda: TORCH, "triton": triton_backend}
