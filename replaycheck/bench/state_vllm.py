"""vLLM's verify and commit on the tensors of a world, and how far what they make lies from ours."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck.schema.bench import Figure
from replaycheck_kernels.providers.vllm_windows import VllmWindows
from replaycheck_kernels.speculation.commit import Align
from replaycheck_kernels.speculation.verify import Verified

from . import state_calls as ours
from .clock import Call
from .figures import figure
from .state_world import World

NATIVE, RECOVER, COMMIT = "vllm/native-verify", "vllm/recover-verify", "vllm/recover-commit"


@dataclass(frozen=True)
class Theirs:
    """Calls by name, and what they fill: outputs and records of the last layer's verify, or pools of their own."""

    calls: dict[str, Call]
    verified: Verified | None = None
    native: Tensor | None = None
    pool: Tensor | None = None
    conv: Tensor | None = None

    @staticmethod
    def verify(vllm: VllmWindows, world: World) -> Theirs:
        native, o = vllm.native_verify(world.windows, world.pool, world.slots)
        recover, verified = vllm.recover_verify(world.windows, world.pool, world.slots)
        return Theirs({NATIVE: native, RECOVER: recover}, verified, o)

    @staticmethod
    def commit(vllm: VllmWindows, world: World, align: Align | None) -> Theirs:
        pool, conv = world.pool.clone(), world.conv.clone()
        call = vllm.commit(pool, conv, world.records, world.decays, world.accepted, world.slots, align)
        return Theirs({COMMIT: call}, pool=pool, conv=conv)


def agreement_of_verify(world: World, theirs: Theirs, what: str) -> list[Figure]:
    """Relative differences of outputs and corrections of the last layer, after both ran on the same inputs."""
    found = theirs.verified
    if found is None:
        return []
    ours.recover_verify(world)()
    theirs.calls[RECOVER]()
    u = world.records.correction[-1]
    return [
        difference(ours.VERIFY, f"{what}: o, from {RECOVER}", world.o, found.o),
        difference(ours.VERIFY, f"{what}: corrections, from {RECOVER}", u, found.records.correction),
    ]


def agreement_of_commit(world: World, align: Align | None, theirs: Theirs, what: str) -> list[Figure]:
    """Of two layers after one commit of each from the same states: states relative, convolution windows in bytes."""
    layers, pool, conv = 2, theirs.pool, theirs.conv
    if pool is None or conv is None:
        return []
    some = ours.some_layers(world, layers)
    ours.commit(some, align)()
    theirs.calls[COMMIT]()
    differ = (some.conv[:, 1:] != conv[:layers, 1:]).float().mean()
    return [
        difference(ours.COMMIT, f"{what}: states, from {COMMIT}", some.pool[:, 1:], pool[:layers, 1:]),
        figure(ours.COMMIT, f"{what}: elements of windows that differ from {COMMIT}", "share", [float(differ)]),
    ]


def difference(name: str, quantity: str, mine: Tensor, other: Tensor) -> Figure:
    """Frobenius norm of the difference over that of the other."""
    a, b = mine.double(), other.double()
    return figure(name, quantity, "relative", [float(torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b))])
