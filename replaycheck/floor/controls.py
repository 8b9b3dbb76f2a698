"""Which two arms of a run are a control: two ways to compute the same, none of which is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaycheck.schema.arm import Arm, Compiler, Kernel, PoolDtype
from replaycheck.schema.floor import Control

__all__ = ["Pairing", "cold_arms", "pairings", "with_changes"]


@dataclass(frozen=True)
class Pairing:
    """A control's two arms."""

    control: Control
    reference: Arm
    candidate: Arm


def pairings(arms: Sequence[Arm]) -> tuple[Pairing, ...]:
    """The controls that these arms hold, by control and then in the order of the candidates.

    A warm arm is never part of one, since whether it is right is what a run asks.
    """
    there = {arm.name for arm in arms}
    once = {arm.name for arm in cold_arms(arms)}
    found = [
        Pairing(control, reference, arm)
        for arm in arms
        if arm.compiler is not Compiler.COLD or arm.repeat or arm.name in once
        for control, reference in _wanted(arm)
        if reference.name in there
    ]
    return tuple(sorted(found, key=lambda each: list(Control).index(each.control)))


def cold_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """One cold arm for each distinct computation: neither the pool nor, with one kernel, the policy's stores change it."""
    kept: dict[object, Arm] = {}
    for arm in arms:
        if arm.compiler is Compiler.COLD and not arm.repeat:
            kept.setdefault(_computation(arm), arm)
    return tuple(kept.values())


def _computation(arm: Arm) -> object:
    """What a cold arm computes. Unlike kernels are switched at warm's last restore, which the policy decides."""
    cuts = arm.policy.budget if arm.history is arm.tail else arm.policy
    # Decoding in a reduced pool stores a rounded state at every token, so the pool is part of it.
    return arm.history, arm.tail, arm.answer, arm.recipe, arm.activation, arm.tensor_parallel, arm.pool, cuts


def _wanted(arm: Arm) -> Iterator[tuple[Control, Arm]]:
    """What an arm is held against, where it is there."""
    if arm.compiler is Compiler.SPLIT and arm.rollback is None:
        yield Control.SPLIT, with_changes(arm, compiler=Compiler.COLD)
    elif arm.compiler is Compiler.SPLIT_ROUNDED and arm.pool is not PoolDtype.FP32:
        live = {"rollback": None, "ring": None, "ring_lag": False}
        yield Control.ROUNDED, with_changes(arm, compiler=Compiler.SPLIT, pool=PoolDtype.FP32, **live)
    elif arm.compiler is Compiler.COLD and arm.repeat:
        control = Control.BATCH if arm.repeat == 1 else Control.REPEAT
        yield control, with_changes(arm, repeat=arm.repeat - 1)
    elif arm.compiler is Compiler.COLD and arm.answer is Kernel.CHUNK:
        yield Control.KERNEL, with_changes(arm, answer=Kernel.RECURRENT)
    elif arm.compiler is Compiler.COLD and arm.policy.budget is not None:
        yield Control.BUDGET, with_changes(arm, policy=arm.policy.model_copy(update={"budget": None}))
    elif arm.history is arm.tail is Kernel.RECURRENT and arm.compiler is Compiler.COLD and arm.pool is PoolDtype.FP32:
        yield Control.KERNEL, with_changes(arm, history=Kernel.CHUNK, tail=Kernel.CHUNK)


def with_changes(arm: Arm, **changes: object) -> Arm:
    """The arm with other fields; not checked, since both arms of a control could be in a suite."""
    return arm.model_copy(update=changes)
