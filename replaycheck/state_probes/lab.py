"""Groups through the whole model: warm against split-rounded, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from replaycheck.compare.record import ArmRecording, StateAt
from replaycheck.errors import InternalError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Arm, CheckpointPolicy, Compiler, PoolDtype
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.kda import KdaWeights
from replaycheck.subjects.lab.layers import linear, rms_norm
from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.precision import Precision

from .found import Check, Found, broken, exact
from .groups import GROUPS
from .policies import PLAYED, arm_of
from .subject import Subject

__all__ = ["checks"]

BITS = "the bits of split-rounded at every position, for every pool dtype"
ROWS = {
    "lab-conversation": ("conversation", "turns, a resent prompt, a second question on one answer"),
    "lab-fork": ("beam", "a beam search that drops, duplicates and reorders"),
    "lab-preemption": ("preempted", "requests taken off, computed again and swapped"),
    "lab-readers": ("batch", "requests that read one stored state at once"),
    "lab-tiers": ("tiers", "states to the host and back, once with an aborted load"),
    "lab-empty-turns": ("empty-turns", "questions and answers without text"),
    "lab-long-decode": ("long-decode", "an answer over two points of a track grid"),
}

FIRST = ("batch", "tiers")
"""Groups whose restored convolutions are computed again from tokens: restores of every kind."""


@dataclass(frozen=True)
class _Pair:
    """A group under one arm, warm, and its reference. ``wrong``: the first thing that they don't share."""

    schedule: Schedule
    warm: ArmRecording
    rounded: ArmRecording
    wrong: str | None

    @property
    def name(self) -> str:
        return f"{self.schedule.arm.policy.slug}, {self.schedule.arm.pool}"


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    rows = [Check(name, "lab", BITS, _look(name)) for name in ROWS]
    return [
        *rows,
        Check("fork-siblings", "forks", "the same bits in any order of siblings", _siblings),
        Check("conv-first-layer", "convolution", "projections of the last tokens, byte for byte", _first_layer),
    ]


def _arms() -> Iterator[Arm]:
    """Every pool dtype under the reference policy; bf16 under the engines'."""
    for policy in PLAYED:
        for pool in PoolDtype if isinstance(policy, CheckpointPolicy) else (PoolDtype.BF16,):
            yield arm_of(Compiler.WARM, policy, pool=pool)


def _recorded(subject: Subject) -> Mapping[str, list[_Pair]]:
    """All wanted groups in lockstep: a GPU then needs no more passes than for the longest one."""
    first = FIRST if subject.wants("conv-first-layer") else ()
    names = [group for row, (group, _) in ROWS.items() if group in first or subject.wants(row)]
    plans = [(name, *_plans(subject, name, arm)) for name in names for arm in _arms()]
    try:
        found = _execute(subject.network, [schedule for _, *both in plans for schedule in both])
    except InternalError:  # a plan reads a slot that nothing wrote: one of these, to be told apart
        return {name: _until_wrong(subject, [both for plan, *both in plans if plan == name]) for name in names}
    pairs: dict[str, list[_Pair]] = {name: [] for name in names}
    for (name, warm, _), recording, reference in zip(plans, found[::2], found[1::2], strict=True):
        pairs[name].append(_Pair(warm, recording, reference, difference(recording, reference)))
    return pairs


def _plans(subject: Subject, name: str, arm: Arm) -> tuple[Schedule, Schedule]:
    rounded = arm.model_copy(update={"compiler": Compiler.SPLIT_ROUNDED})
    return subject.spoil(compile_schedule(GROUPS[name], arm)), compile_schedule(GROUPS[name], rounded)


def _until_wrong(subject: Subject, plans: Sequence[Sequence[Schedule]]) -> list[_Pair]:
    """Pairs one by one, up to the first that isn't right."""
    pairs: list[_Pair] = []
    for warm, rounded in plans:
        pairs.append(_alone(subject, warm, rounded))
        if pairs[-1].wrong:
            break
    return pairs


def _alone(subject: Subject, warm: Schedule, rounded: Schedule) -> _Pair:
    (reference,) = _execute(subject.network, [rounded])
    try:
        (recording,) = _execute(subject.network, [warm])
    except InternalError as error:
        return _Pair(warm, replace(reference, restores=()), reference, str(error))
    return _Pair(warm, recording, reference, difference(recording, reference))


def _execute(network: Network, schedules: Sequence[Schedule]) -> list[ArmRecording]:
    network.reset()
    return execute([ArmRun(schedule, network) for schedule in schedules])


def _look(name: str) -> Callable[[Subject], Found]:
    group, what = ROWS[name]

    def look(subject: Subject) -> Found:
        pairs = subject.once("recorded", lambda: _recorded(subject))[group]
        for pair in pairs:
            if pair.wrong:
                return broken("warm isn't split-rounded", f"{pair.name}, {pair.wrong}")
        positions = sum(len(turn.positions) for pair in pairs for turn in pair.warm.turns)
        hits = sum(pair.warm.proven_hits for pair in pairs)
        sentence = f"{what}: {positions} positions and {hits} restores under {len(pairs)} arms, the same bits"
        return exact(sentence, positions=positions, restores=hits, arms=len(pairs))

    return look


def difference(a: ArmRecording, b: ArmRecording) -> str | None:
    """The first thing that two arms of one group don't share, in words.

    Restores are compared first: a wrong state is the smaller example than the logits that follow from it.
    """
    if a.expected_hits != a.proven_hits or a.label_mismatches:
        return f"{a.proven_hits} of {a.expected_hits} hits, {a.label_mismatches} labels that mean another state"
    for x, y in zip(a.restores, b.restores, strict=False):
        if x.key != y.key:
            return f"{_where(x.key)}: restored where the reference restores {_where(y.key)}"
        for what, same in (("temporal state", _same(x.temporal, y.temporal)), ("convolution", _same(x.conv, y.conv))):
            if not same:
                return f"{_where(x.key)}: the {what} of the restored prefix of {x.position} tokens differs"
    if len(a.restores) != len(b.restores):
        return f"{len(a.restores)} states were continued and {len(b.restores)} in the reference"
    for turn, other in zip(a.turns, b.turns, strict=True):
        unlike = [i for i in range(len(turn.positions)) if not _same(turn.logits[i], other.logits[i])]
        if unlike:
            return f"{_where(turn.key)}: {len(unlike)} positions differ, the first is {turn.positions[unlike[0]]}"
        if not np.isfinite(turn.logits).all():
            return f"{_where(turn.key)}: logits aren't finite"
    return None


def _where(key: Sequence[object]) -> str:
    return f"branch {key[1]}, turn {key[2]}"


def _same(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    return a.tobytes() == b.tobytes()


def _siblings(subject: Subject) -> Found:
    """Forked answers asked for in the order of the trace and in the reverse one, in a bf16 pool."""
    arm = next(arm for arm in _arms() if arm.policy.cache == "vllm-none")
    group = GROUPS["beam"]
    turned = group.model_copy(update={"requests": group.requests[::-1]})
    plans = [subject.spoil(compile_schedule(each, arm)) for each in (group, turned)]
    try:
        one, other = _execute(subject.network, plans)
    except InternalError as error:
        return broken("an answer can't be computed", str(error))
    turns = {turn.key: turn for turn in other.turns}
    for turn in one.turns:
        if not _same(turn.logits, turns[turn.key].logits):
            return broken("an answer depends on the order of its siblings", _where(turn.key))
    return exact(f"{len(one.turns)} answers of a beam, in both orders", answers=len(one.turns))


def _first_layer(subject: Subject) -> Found:
    """Every restored convolution of the first layer, from the tokens alone; the rows above have the other layers'."""
    count = 0
    pairs = subject.once("recorded", lambda: _recorded(subject))
    for group in FIRST:
        for pair in pairs[group]:
            for state in pair.warm.restores:
                if state.conv[0].tobytes() != _own_inputs(subject.network, pair.schedule, state):
                    example = f"group {group}, {pair.name}, {_where(state.key)}, prefix of {state.position} tokens"
                    return broken("a restored convolution isn't that of its own last tokens", example)
                count += 1
    return exact(f"{count} restored windows are projections of their prefix's last tokens", windows=count)


@torch.no_grad()
def _own_inputs(network: Network, schedule: Schedule, state: StateAt) -> bytes:
    """The first layer's convolution state from the embeddings of a prefix's last tokens; zeros before its start."""
    plan = next(p for p in schedule.requests if (p.trace, p.branch, p.turn) == state.key[:3])
    layer = network.weights.layers[0]
    assert isinstance(layer.attention, KdaWeights)
    history = network.config.conv_width - 1
    last = plan.tokens[max(0, state.position - history) : state.position]
    ids = torch.tensor(last, device=network.device)
    act = network.recipe.activation
    normed = rms_norm(network.weights.embedding[ids], layer.attention_norm, network.config.rms_norm_eps, act)
    rows = linear(normed, layer.attention.qkv, act)
    window = torch.cat([rows.new_zeros(history - len(last), rows.shape[1]), rows])
    stored = window.to(torch.bfloat16 if act is Precision.BF16 else network.dtype)
    return stored.cpu().contiguous().view(torch.uint8).numpy().tobytes()
