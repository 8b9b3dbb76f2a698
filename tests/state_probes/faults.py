"""A fault for each row of ``probe state``: what it does to the subject, and the rows that must say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from replaycheck.faults.fault import find_fault
from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import PrefixCache
from replaycheck.schedule.speculation import planner
from replaycheck.schedule.speculation.checks import SETUPS
from replaycheck.schedule.steps import Compute, Copy, CopyReason, Schedule
from replaycheck.schema.arm import Kernel, PoolDtype, Rollback
from replaycheck.schema.policy import Policy, VllmPolicy
from replaycheck.state_probes import conv, speculation, tables
from replaycheck.state_probes import plans as plan_rows
from replaycheck.state_probes.subject import Subject
from replaycheck.subjects.lab.pool import Pool
from replaycheck_kernels.contract import KdaInputs, SnapshotRow
from replaycheck_kernels.recipe import SGLANG, Recipe
from replaycheck_kernels.registry import ours
from replaycheck_kernels.speculation import check_methods
from replaycheck_kernels.speculation.backend import TORCH
from replaycheck_kernels.speculation.methods import METHODS
from tests.kernels.speculation.test_checks import FAULTS as KERNEL_FAULTS
from tests.schedule.prefix import test_faults as plan_faults
from tests.schedule.speculation.test_schedules import PLAN_FAULTS, with_kept

Plant = Callable[[Subject, pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Planted:
    """``example``: what the smallest example must say."""

    rows: Sequence[str]
    plant: Plant
    example: str = ""


class RoundsCopies(Pool):
    """A copy goes through bf16, which only an fp32 or fp16 pool shows."""

    def copy(self, source: int, destination: int) -> None:
        super().copy(source, destination)
        self._temporal[destination] = self._temporal[source].to(torch.bfloat16).to(self.dtype)


class LeavesConvolutions(Pool):
    """A copy moves the temporal state and leaves the convolution."""

    def copy(self, source: int, destination: int) -> None:
        kept = self._conv[destination].clone()
        super().copy(source, destination)
        self._conv[destination] = kept


class Moves(Pool):
    """A fork takes its source's state away."""

    def copy(self, source: int, destination: int) -> None:
        super().copy(source, destination)
        self._temporal[source] = 0


class KeepsFreed(Pool):
    """A freed slot keeps its state, and can be read."""

    def free(self, slot: int) -> None:
        pass


class KeepsNames(Pool):
    """A freed slot is poisoned and can still be read."""

    def free(self, slot: int) -> None:
        name = self._identity[slot]
        super().free(slot)
        self._identity[slot] = name


class ClearsHalf(Pool):
    """A clear leaves the convolution of the last owner."""

    def clear(self, slot: int) -> None:
        kept = self._conv[slot].clone()
        super().clear(slot)
        self._conv[slot] = kept


class WritesNeighbours(Pool):
    """A store is one slot too wide."""

    def store(self, slot: int, state: Any) -> None:
        super().store(slot, state)
        self._temporal[(slot + 1) % len(self._temporal)] = self._temporal[slot]


def pool(kind: type[Pool]) -> Plant:
    return lambda subject, _: setattr(subject, "pool", kind)


def steps(change: Callable[[list[Any]], list[Any]]) -> Plant:
    """A fault of a list of steps; a plan that it doesn't fit stays as it is."""

    def spoil(schedule: Schedule) -> Schedule:
        try:
            return replace(schedule, steps=tuple(change(list(schedule.steps))))
        except (StopIteration, ValueError, IndexError):
            return schedule

    return lambda subject, _: setattr(subject, "spoil", spoil)


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


def never_hits(policy: Policy) -> PrefixCache:
    cache = prefix_cache(policy)
    cache.find = lambda job: None  # type: ignore[method-assign]
    return cache


def hits_all_the_same(policy: Policy) -> PrefixCache:
    return prefix_cache(VllmPolicy(cache="vllm-align", block=64))


def evicts_the_newest(policy: Policy) -> PrefixCache:
    cache = prefix_cache(policy)
    states = cache.store._states
    cache.store.victim = lambda: next(  # type: ignore[method-assign]
        (state for name, state in reversed(states.items()) if not cache.store.held(name)), None
    )
    return cache


def cache(kind: Callable[[Policy], PrefixCache]) -> Plant:
    return lambda subject, _: setattr(subject, "cache", kind)


def backend(field: str, wrong: Any) -> Plant:
    return lambda _, monkeypatch: monkeypatch.setattr(speculation, "TORCH", replace(TORCH, **{field: wrong}))


def keeps_one_less(name: str) -> Plant:
    """The last kept token is rolled back, too."""

    class Wrong(METHODS[name]):  # type: ignore[misc]
        def step(self, step: Any) -> Any:
            return super().step(replace(step, kept=tuple(max(1, kept - 1) for kept in step.kept)))

    return lambda _, monkeypatch: monkeypatch.setitem(check_methods.METHODS, name, Wrong)


def crops_one_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention's cache loses a kept token after each window."""
    right = planner.Planner._end
    monkeypatch.setattr(planner.Planner, "_end", lambda self, request, index: right(self, request, index) - 1)


COPIES = ("copy-restore", "copy-fork", "copy-block", "copy-store", "copy-tier")
CAST_VIA = {PoolDtype.FP32: torch.bfloat16, PoolDtype.BF16: torch.float16, PoolDtype.FP16: torch.bfloat16}
FAULTS: dict[str, Planted] = {
    "a copy rounds": Planted(COPIES, pool(RoundsCopies), "fp32, step"),
    "a copy leaves the convolution": Planted(("conv-slot",), pool(LeavesConvolutions), "other inputs"),
    "a copy moves": Planted(("fork-source", "copy-store"), pool(Moves), "source"),
    "the null slot is written": Planted(("pool-null",), steps(plan_faults.null_slot_is_written), "null slot"),
    "a freed slot keeps its state": Planted(("pool-poison", "pool-freed"), pool(KeepsFreed), "freed"),
    "a freed slot keeps its name": Planted(("pool-freed",), pool(KeepsNames), "can be read"),
    "a clear leaves a part": Planted(("pool-clear",), pool(ClearsHalf), "isn't zero"),
    "a store is too wide": Planted(("pool-stored",), pool(WritesNeighbours), "slot"),
    "a restore copies a later state": Planted(
        ("pool-label", "copy-restore", "plan-groups", "lab-readers"), shipped("restore-late")
    ),
    "a snapshot's convolution is late": Planted(
        ("conv-slot", "conv-first-layer", "lab-conversation"), shipped("conv-late")
    ),
    "a fork copies with the context": Planted(("fork-bytes",), steps(copies_twice), "1000 tokens"),
    "a beam takes its sibling's state": Planted(
        ("fork-siblings", "lab-fork", "copy-fork"), steps(plan_faults.fork_from_a_sibling)
    ),
    "prefill runs through the other kernel": Planted(("lab-empty-turns", "lab-long-decode"), steps(other_kernel)),
    "a swap brings another state": Planted(("lab-preemption",), steps(plan_faults.swapped_back_from_another_slot)),
    "an aborted load is used": Planted(("lab-tiers", "pool-freed"), steps(plan_faults.aborted_load_is_used)),
    "a rollback keeps a token less": Planted(
        tuple(f"lab-rollback-{method}" for method in Rollback),
        lambda subject, _: setattr(subject, "spoil", lambda plan: with_kept(plan, PLAN_FAULTS["one too few"])),
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
        cache(never_hits),
        "hit of a prompt",
    ),
    "a cache evicts the newest": Planted(("cache-reference", "cache-sglang-no-buffer"), cache(evicts_the_newest)),
    "a cache that should keep nothing does": Planted(("cache-vllm-none",), cache(hits_all_the_same), "vllm-none"),
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
        wrong.__name__: Planted((f"torch-{row}",), backend(field, wrong))
        for name, row in (
            ("verify-read-only", "verify-reads"),
            ("verify", "verify"),
            ("recover-commit", "recover-commit"),
            ("recover-boundary", "recover-boundary"),
            ("commit-plan", "commit-plan"),
            ("conv-compaction", "conv-compaction"),
            ("slot-copy", "rollback-copy"),
        )
        for field, wrong in (KERNEL_FAULTS[name],)
    },
}
