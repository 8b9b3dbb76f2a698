"""A fault for each row of ``probe state``: what it does to the subject, and the rows that must say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from replaycheck.faults import caches, ownership, plans, pools
from replaycheck.faults import speculation as wrong_backends
from replaycheck.faults.fault import find_fault
from replaycheck.faults.shards import beta_replicated
from replaycheck.faults.steps import on_steps
from replaycheck.schedule.parallel import ParallelPlan, plan_ranks
from replaycheck.schedule.prefix.job import PrefixCache
from replaycheck.schedule.speculation import planner
from replaycheck.schedule.speculation.checks import SETUPS
from replaycheck.schedule.steps import Compute, Copy, CopyReason, Free, Row
from replaycheck.schema.arm import Kernel, PoolDtype, Rollback
from replaycheck.schema.policy import Policy
from replaycheck.state_probes import batching, conv, tables
from replaycheck.state_probes import plans as plan_rows
from replaycheck.state_probes.subject import Subject
from replaycheck.subjects.lab import parallel_checks, parallel_layer
from replaycheck.subjects.lab.parallel import plan_for
from replaycheck.subjects.lab.pool import Pool
from replaycheck_kernels.contract import KdaInputs, SnapshotRow
from replaycheck_kernels.recipe import SGLANG, Recipe
from replaycheck_kernels.registry import ours
from replaycheck_kernels.speculation.backend import TORCH
from replaycheck_kernels.speculation.methods import METHODS, Step
from replaycheck_kernels.speculation.methods import Rollback as Rollbacks

Plant = Callable[[Subject, pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Planted:
    """``example``: what the smallest example must say."""

    rows: Sequence[str]
    plant: Plant
    example: str = ""


def pool(wrong: pools.PoolFault) -> Plant:
    return lambda subject, _: setattr(subject, "pool", wrong(Pool))


def steps(change: Callable[[list[Any]], list[Any]]) -> Plant:
    return lambda subject, _: setattr(subject, "spoil", on_steps(change))


def shipped(name: str) -> Plant:
    return lambda subject, _: setattr(subject, "spoil", find_fault(name).on_schedule)


def other_kernel(found: list[Any]) -> list[Any]:
    """Every prefill runs through the other kernel form."""

    def change(step: Any) -> Any:
        if not isinstance(step, Compute):
            return step
        other = {Kernel.CHUNK: Kernel.RECURRENT, Kernel.RECURRENT: Kernel.RECURRENT}
        return replace(step, rows=tuple(replace(row, kernel=other[row.kernel]) for row in step.rows))

    return [change(step) for step in found]


def copies_twice(found: list[Any]) -> list[Any]:
    """A fork is copied once more for each 1,000 tokens of context."""
    at = next(i for i, step in enumerate(found) if isinstance(step, Copy) and step.reason is CopyReason.FORK)
    rows = [row for step in found[:at] if isinstance(step, Compute) for row in step.rows]
    more = max(row.b for row in rows) // 1000
    return [*found[:at], *[found[at]] * more, *found[at:]]


def casts_snapshots(form: str, through: torch.dtype) -> Plant:
    """Snapshots pass through another dtype on their way; final states don't."""
    kernel = ours(SGLANG, "cpu")[form]

    def forward(x: KdaInputs, initial: torch.Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> Any:
        done = kernel.forward(x, initial, rows, recipe)
        return replace(done, snapshots=done.snapshots.to(through).float())

    return lambda subject, _: subject.replaced.update({form: replace(kernel, forward=forward)})


def patched(module: Any, name: str, wrong: Callable[[Any], Any]) -> Plant:
    """``wrong`` makes the faulty function from the right one."""
    return lambda _, monkeypatch: monkeypatch.setattr(module, name, wrong(getattr(module, name)))


def cache(kind: Callable[[Policy], PrefixCache]) -> Plant:
    return lambda subject, _: setattr(subject, "cache", kind)


def backend(wrong: wrong_backends.SpeculationFault) -> Plant:
    return lambda subject, _: setattr(subject, "backend", wrong(TORCH))


def keeps_one_less(name: str) -> Plant:
    """The last kept token is rolled back, too."""
    right = METHODS[name]

    def step(self: Rollbacks, step: Step) -> list[torch.Tensor]:
        return right.step(self, replace(step, kept=tuple(max(1, kept - 1) for kept in step.kept)))

    return lambda _, monkeypatch: monkeypatch.setitem(METHODS, name, type("Wrong", (right,), {"step": step}))


def packed_by_size(right: Callable[..., Any]) -> Callable[..., Any]:
    """In a pack, a row of one token has the logits of its neighbour's last token: padding of the wrong side is read."""

    def forward(network: Any, rows: Sequence[Any]) -> list[Any]:
        found = right(network, rows)
        at = next(i for i, row in enumerate(rows) if len(row.tokens) == 1)
        beside = found[at - 1].logits[-1:]
        return [*found[:at], replace(found[at], logits=beside), *found[at + 1 :]]

    return forward


def shards(fault: Callable[[ParallelPlan], ParallelPlan]) -> Plant:
    """Ranks of random layers and of models have other parts."""

    def plant(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parallel_layer, "plan_ranks", lambda *given: fault(plan_ranks(*given)))
        monkeypatch.setattr(parallel_checks, "plan_for", lambda *given: fault(plan_for(*given)))

    return plant


def crops_one_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention's cache loses a kept token after each window."""
    right = planner.Planner._end
    monkeypatch.setattr(planner.Planner, "_end", lambda self, request, index: right(self, request, index) - 1)


def freed_a_step_early(found: list[Any]) -> list[Any]:
    """The first slot that is given back is given back before the pass in flight is done."""
    at = next(i for i, step in enumerate(found) if isinstance(step, Free))
    last = max(i for i, step in enumerate(found[:at]) if isinstance(step, Compute))
    return [*found[:last], found[at], *found[last:at], *found[at + 1 :]]


def never_flushed(found: list[Any]) -> list[Any]:
    """A ring takes every window, and is never folded into the state."""

    def push(row: Row) -> Row:
        return (
            replace(row, lag=replace(row.lag, after=row.lag.before + row.kept.temporal))
            if row.lag and row.kept
            else row
        )

    return [replace(step, rows=tuple(map(push, step.rows))) if isinstance(step, Compute) else step for step in found]


COPIES = ("copy-restore", "copy-fork", "copy-block", "copy-store", "copy-tier")
CAST_VIA = {PoolDtype.FP32: torch.bfloat16, PoolDtype.BF16: torch.float16, PoolDtype.FP16: torch.bfloat16}
FAULTS: dict[str, Planted] = {
    "a copy rounds": Planted(COPIES, pool(pools.rounded_copies), "fp32, step"),
    "a copy leaves the convolution": Planted(("conv-slot",), pool(pools.conv_left_behind), "other inputs"),
    "a copy moves": Planted(("fork-source", "copy-store"), pool(pools.moves), "source"),
    "the null slot is written": Planted(("pool-null",), steps(ownership.null_slot_is_written), "null slot"),
    "a freed slot keeps its state": Planted(("pool-poison", "pool-freed"), pool(pools.keeps_freed), "freed"),
    "a freed slot keeps its name": Planted(("pool-freed",), pool(pools.keeps_names), "can be read"),
    "a clear leaves a part": Planted(("pool-clear",), pool(pools.clears_half), "isn't zero"),
    "a store is too wide": Planted(("pool-stored",), pool(pools.stores_the_neighbour), "slot"),
    "a restore copies a later state": Planted(
        ("pool-label", "copy-restore", "plan-groups", "lab-readers"), shipped("restore-late")
    ),
    "a snapshot's convolution is late": Planted(
        ("conv-slot", "conv-first-layer", "lab-conversation"), shipped("conv-late")
    ),
    "a fork copies with the context": Planted(("fork-bytes",), steps(copies_twice), "1000 tokens"),
    "a beam takes its sibling's state": Planted(
        ("fork-siblings", "lab-fork", "copy-fork"), steps(ownership.fork_from_a_sibling)
    ),
    "prefill runs through the other kernel": Planted(
        ("lab-empty-turns", "lab-long-decode", "lab-budgets"), steps(other_kernel)
    ),
    "a mask is dropped": Planted(
        ("lab-padding-left", "lab-padding-right", "plan-padding"), shipped("mask-dropped"), "pad-left1"
    ),
    "a row's bits depend on its pack": Planted(
        ("lab-pack-order",), patched(batching, "_forward", lambda right: packed_by_size(right)), "row of 1 tokens"
    ),
    "a prompt that is stored goes on from nothing": Planted(
        ("plan-zero-new",), steps(ownership.hit_without_a_restore), "which was freed"
    ),
    "a rank has another's beta": Planted(
        ("shard-layer-chunk", "shard-layer-recurrent", "shard-model"), shards(beta_replicated), "degree 2"
    ),
    "a swap brings another state": Planted(("lab-preemption",), steps(ownership.swapped_back_from_another_slot)),
    "an aborted load is used": Planted(("lab-tiers", "pool-freed"), steps(ownership.aborted_load_is_used)),
    "a slot is reused while a step in flight writes it": Planted(
        ("plan-pipeline", "lab-pipeline"), steps(freed_a_step_early), "which was freed"
    ),
    "a ring isn't flushed": Planted(
        ("lab-rollback-replay-lag",), steps(never_flushed), "fp32 pool against split-rounded"
    ),
    "a rollback keeps a token less": Planted(
        tuple(f"lab-rollback-{method}" for method in Rollback),
        lambda subject, _: setattr(subject, "spoil", lambda plan: plans.kept_off(-1)(plan)),
        "fp32 pool against split-rounded",
    ),
    "a window is read one column late": Planted(
        ("conv-window",),
        patched(conv, "convolve", lambda right: lambda *args: (None, right(*args)[1].roll(1, 1))),
        "row of 1 tokens",
    ),
    "a store goes through bf16": Planted(
        ("double-rounding",), lambda subject, _: setattr(subject, "store", find_fault("via-bf16").cast), "real elements"
    ),
    "a verify is tracked one token late": Planted(
        ("plan-sglang-verify",), patched(tables, "track_step", lambda right: lambda *a: right(a[0] - 1, *a[1:])), "256"
    ),
    "an extend of a chunk isn't tracked": Planted(
        ("plan-sglang-extend",),
        patched(tables, "prefill_track", lambda right: lambda page, p, e, b: right(page, p, e - 1, b)),
        "(1, 0, 64, None)",
    ),
    "a block is copied one step late": Planted(
        ("plan-vllm-boundary",),
        patched(tables, "align_postprocess", lambda right: lambda *a: right(*a[:3], a[3] - 1, a[4])),
        "(31, 1, 0, 1, 16)",
    ),
    "a commit ignores the window's length": Planted(
        ("plan-vllm-commit",),
        patched(tables, "recover_plan", lambda right: lambda c, a, _, *rest: right(c, a, a, *rest)),
        "(100, 9, 3",
    ),
    "attention's cache is cropped too far": Planted(
        tuple(f"plan-{plan_rows._slug(name)}" for name in SETUPS), lambda _, monkeypatch: crops_one_less(monkeypatch)
    ),
    "ranks are summed backwards": Planted(
        ("plan-shards",),
        patched(
            plan_rows,
            "check_sharding_plans",
            lambda right: lambda: [replace(each, exact=False, values={"degree": 2}) for each in right()],
        ),
        "degree 2",
    ),
    "a cache never hits": Planted(
        ("cache-reference", "cache-sglang-no-buffer", "cache-sglang-extra-buffer", "cache-vllm-align"),
        cache(caches.never_hits),
        "hit of a prompt",
    ),
    "a cache evicts the newest": Planted(
        ("cache-reference", "cache-sglang-no-buffer"), cache(caches.evicts_the_newest)
    ),
    "a cache that should keep nothing does": Planted(
        ("cache-vllm-none",), cache(caches.hits_all_the_same), "vllm-none"
    ),
    **{
        f"{name} rolls back one token too much": Planted((f"rollback-{name}",), keeps_one_less(name), "window 3")
        for name in METHODS
    },
    **{
        f"{form} snapshots for {kind} go through {CAST_VIA[kind]}": Planted(
            (f"snapshot-{form}-{kind}",), casts_snapshots(form, CAST_VIA[kind]), "snapshot at 64"
        )
        for form in ("chunk", "recurrent")
        for kind in PoolDtype
    },
    **{
        wrong.__name__: Planted((f"torch-{row}",), backend(wrong))
        for row, wrong in (
            ("verify-reads", wrong_backends.writes_the_pool),
            ("verify", wrong_backends.keys_scaled),
            ("recover-commit", wrong_backends.corrections_bf16),
            ("recover-boundary", wrong_backends.boundary_one_less),
            ("commit-plan", wrong_backends.column_of_the_next_block),
            ("conv-compaction", wrong_backends.window_one_late),
            ("rollback-copy", wrong_backends.null_pair_is_copied),
        )
    },
}
