"""Faults of the kernels that verify and commit windows: a backend in, one that errs out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from replaycheck_kernels.speculation.backend import Backend
from replaycheck_kernels.speculation.commit import CommitPlan
from replaycheck_kernels.speculation.copies import CopyPlan

__all__ = ["SpeculationFault"]

SpeculationFault = Callable[[Backend], Backend]


def writes_the_pool(right: Backend) -> Backend:
    """A verify that writes the pool, which a rejected draft then can't be taken out of."""

    def verify(*args: Any) -> Any:
        done = right.verify(*args)
        args[1][args[2]] += 1
        return done

    return replace(right, verify=verify)


def keys_after_the_norm(right: Backend) -> Backend:
    """F56: records keep the normalised key. The rebuild normalises it again, which changes nothing: k̂ of k̂ is k̂."""

    def verify(window: Any, pool: Tensor, slots: Tensor, recipe: Any) -> Any:
        done = right.verify(window, pool, slots, recipe)
        key = done.records.key
        normal = torch.nn.functional.normalize(key.float(), dim=-1).to(key.dtype)
        return replace(done, records=replace(done.records, key=normal))

    return replace(right, verify=verify)


def keys_scaled(right: Backend) -> Backend:
    """F56: records keep another multiple of the key, which the norm takes out again."""

    def verify(*args: Any) -> Any:
        done = right.verify(*args)
        return replace(done, records=replace(done.records, key=done.records.key * 2))

    return replace(right, verify=verify)


def keys_before_the_conv(right: Backend) -> Backend:
    """F56: records keep the input of the convolution instead of its result; here the key of the token before."""

    def verify(*args: Any) -> Any:
        done = right.verify(*args)
        return replace(done, records=replace(done.records, key=done.records.key.roll(1, 2)))

    return replace(right, verify=verify)


def corrections_bf16(right: Backend) -> Backend:
    """F9: corrections lose bits between verify and commit."""

    def rebuild(pool: Tensor, records: Any, *rest: Any) -> None:
        right.rebuild(pool, replace(records, correction=records.correction.bfloat16().float()), *rest)

    return replace(right, rebuild=rebuild)


def records_of_another_row(right: Backend) -> Backend:
    """F55: the corrections of a sibling."""

    def rebuild(pool: Tensor, records: Any, *rest: Any) -> None:
        right.rebuild(pool, replace(records, correction=records.correction.roll(1, 1)), *rest)

    return replace(right, rebuild=rebuild)


def own_decay_on_correction(right: Backend) -> Backend:
    """F57: each correction is decayed by its own token's decay, too: those before it alone are right."""

    def rebuild(pool: Tensor, records: Any, plan: CommitPlan, decays: Any, recipe: Any, aligned: bool) -> None:
        from replaycheck_kernels.speculation.commit import Decays, activated

        corrections = []
        for layer in range(pool.shape[0]):
            mine = type(records)(records.correction[layer], records.key[layer], records.decay[layer])
            rule = Decays(decays.A_log[layer], decays.dt_bias[layer], decays.lower_bound)
            _, factors = activated(mine, rule, recipe, torch.float32)
            corrections.append(mine.correction * factors.mean(-1, keepdim=True))
        right.rebuild(pool, replace(records, correction=torch.stack(corrections)), plan, decays, recipe, aligned)

    return replace(right, rebuild=rebuild)


def commits_twice(right: Backend) -> Backend:
    """F58, B91: a window goes into the state twice."""

    def rebuild(pool: Tensor, records: Any, plan: CommitPlan, *rest: Any) -> None:
        right.rebuild(pool, records, plan, *rest)
        right.rebuild(pool, records, replace(plan, source=plan.final), *rest)

    return replace(right, rebuild=rebuild)


def never_commits(right: Backend) -> Backend:
    """F58: a window's tokens are lost."""
    return replace(right, rebuild=lambda *args: None)


def boundary_one_less(right: Backend) -> Backend:
    """F53: the boundary's state is that of one token earlier."""

    def rebuild(pool: Tensor, records: Any, plan: CommitPlan, *rest: Any) -> None:
        right.rebuild(pool, records, replace(plan, boundary_length=plan.boundary_length - 1), *rest)

    return replace(right, rebuild=rebuild)


def column_of_the_next_block(right: Backend) -> Backend:
    """F52: the final column of a state that ends on a boundary is the next block's."""

    def plan(accepted: Tensor, lengths: Tensor, source: Tensor, width: int, align: Any = None) -> CommitPlan:
        found = right.plan(accepted, lengths, source, width, align)
        if align is None:
            return found
        column = ((align.computed + found.length) // align.block).clamp(max=align.table.shape[1] - 1)
        final = torch.where(found.length > 0, align.table.gather(1, column[:, None])[:, 0], 0)
        return replace(found, final=final)

    return replace(right, plan=plan)


def commits_nothing_kept(right: Backend) -> Backend:
    """F59: rows that keep nothing, and rows of the null block, are committed like the others."""

    def plan(accepted: Tensor, lengths: Tensor, source: Tensor, width: int, align: Any = None) -> CommitPlan:
        found = right.plan(accepted, lengths, source, width, align)
        return replace(found, length=accepted.clamp(min=1).minimum(lengths.clamp(min=1)).clamp(max=width))

    return replace(right, plan=plan)


def window_one_late(right: Backend) -> Backend:
    """F29, F50: the convolution window starts one column late."""

    def compact(conv: Tensor, plan: CommitPlan, history: int, aligned: bool) -> None:
        late = (plan.length + 1).clamp(max=conv.shape[2] - history + 1)
        right.compact(conv, replace(plan, length=late), history, aligned)

    return replace(right, compact=compact)


def window_without_order(right: Backend) -> Backend:
    """B27: columns are shifted in place without memmove's order: the last are moved first."""

    def compact(conv: Tensor, plan: CommitPlan, history: int, aligned: bool) -> None:
        for slot, n in zip(plan.source.tolist(), plan.length.tolist(), strict=True):
            for column in reversed(range(history)) if n else ():
                conv[:, slot, column] = conv[:, slot, n - 1 + column]

    return replace(right, compact=compact)


def null_pair_is_copied(right: Backend) -> Backend:
    """F44: a pair with a null slot is copied, too."""

    def copy(temporal: tuple[Tensor, Tensor], conv: tuple[Tensor, Tensor], plan: CopyPlan, history: int) -> None:
        right.copy(temporal, conv, plan, history)
        temporal[1][:, 0] = 0

    return replace(right, copy=copy)
