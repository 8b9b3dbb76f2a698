"""CUDA graphs of state operations: calls captured for timing, and one step whose plan changes between replays.

A call that asks the host for a value can't be captured, so a step that is captured, and that does with other contents of its
plan what it does when it is called, waits for no host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_kernels.speculation.commit import Align
from replaycheck_kernels.speculation.copies import CopyPlan

from .clock import Call
from .state_calls import backend, recover_verify, some_layers
from .state_world import RECIPE, World

PLANS = 4
_LAYERS = 2


def captured(call: Call) -> Call:
    """``call`` as the replay of a graph. It has run once before, on a stream of its own, as capturing needs.

    Raises:
        RuntimeError: of torch, if the call can't be captured.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


@dataclass(frozen=True)
class Step:
    """A decoding step of a few layers (verify, plan, rebuild, compaction, copy of slots) on tensors of its own.

    ``lengths``, ``accepted``, ``align`` and ``copies`` are its plan.
    """

    world: World
    lengths: Tensor
    accepted: Tensor
    align: Align
    copies: CopyPlan

    def __call__(self) -> None:
        x, calls = self.world, backend(self.world.pool.device.type)
        recover_verify(x)()
        plan = calls.plan(self.accepted, self.lengths, x.slots, x.geometry.width, self.align)
        calls.rebuild(x.pool, x.records, plan, x.decays, RECIPE, True)
        calls.compact(x.conv, plan, x.geometry.history, True)
        calls.copy((x.pool, x.pool), (x.conv, x.conv), self.copies, x.geometry.history)


def step(world: World) -> Step:
    """A step of the world's first layers, on copies. The records of the world are filled."""
    some, lengths = some_layers(world, _LAYERS), world.lengths.clone()
    computed, pair = torch.zeros_like(world.slots), torch.zeros_like(world.slots)
    return Step(
        replace(some, windows=tuple(replace(window, lengths=lengths) for window in some.windows)),
        lengths,
        torch.ones_like(world.slots),
        replace(world.align(), computed=computed),
        CopyPlan(pair.clone(), pair.clone(), pair.clone()),
    )


@dataclass(frozen=True)
class Replays:
    """Of ``PLANS`` plans: replays with the bits of eager calls, and plans that changed some state."""

    equal: int
    changed: int


def replays(world: World, capture: Callable[[Call], Call] = captured) -> Replays:
    """Capture one step and replay it with other plans, each against the step called in the ordinary way."""
    once = step(world)
    start = once.world.pool.clone(), once.world.conv.clone()
    replay = capture(once)
    equal = changed = 0
    for seed in range(PLANS):
        _draw_plan(once, seed)
        found = _from(once, start, replay)
        eager = _from(once, start, once)
        equal += all(torch.equal(a, b) for a, b in zip(found, eager, strict=True))
        changed += not torch.equal(found[0], start[0])
    return Replays(equal, changed)


def _draw_plan(once: Step, seed: int) -> None:
    """Other lengths, accepted counts and places in blocks; every second plan copies a slot, too."""
    g, width, rows = torch.Generator().manual_seed(seed), once.world.geometry.width, once.world.rows
    once.lengths.copy_(torch.randint(1, width + 1, (rows,), generator=g))
    once.accepted.copy_(torch.randint(0, width + 2, (rows,), generator=g))
    once.align.computed.copy_(torch.randint(0, width, (rows,), generator=g))
    source, target = (int(once.world.slots[0]), int(once.world.slots[-1]) + 1) if seed % 2 else (0, 0)
    once.copies.source[0] = source
    once.copies.destination[0] = target


def _from(once: Step, start: tuple[Tensor, Tensor], call: Call) -> tuple[Tensor, Tensor]:
    pool, conv = once.world.pool, once.world.conv
    pool.copy_(start[0])
    conv.copy_(start[1])
    call()
    return pool.clone(), conv.clone()
