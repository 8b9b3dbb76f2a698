"""Our state operations as calls that can be repeated: Triton on a GPU, torch on the CPU, all layers in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck_kernels.registry import KERNELS
from replaycheck_kernels.speculation.backend import TORCH, Backend, triton_backend
from replaycheck_kernels.speculation.commit import Align, Decays
from replaycheck_kernels.speculation.copies import CopyPlan
from replaycheck_kernels.speculation.function_bound import exact, gpu_bound
from replaycheck_kernels.speculation.verify import Records, each_position

from .clock import Call
from .state_world import RECIPE, Geometry, World, records_of

VERIFY, COMMIT = "ours/recover-verify", "ours/recover-commit"
NATIVE, BACK, COPY = "ours/native-verify", "ours/copy-back", "ours/slot-copy"


def backend(device: str) -> Backend:
    """The functions on states that run on a device."""
    return triton_backend() if device == "cuda" else TORCH


def recover_verify(world: World) -> Call:
    """RecoverSSM's verify: the pool is read, records are written to the world's."""
    if world.pool.is_cuda:
        from replaycheck_kernels.speculation.triton.verify import verify

        def call() -> None:
            for layer, window in enumerate(world.windows):
                verify(window, world.pool[layer], world.slots, RECIPE, world.into(layer))

    else:

        def call() -> None:
            for layer, window in enumerate(world.windows):
                done, into = TORCH.verify(window, world.pool[layer], world.slots, RECIPE), world.into(layer)
                into.o.copy_(done.o)
                for name in ("correction", "key", "decay"):
                    getattr(into.records, name).copy_(getattr(done.records, name))

    return call


def native_verify(world: World) -> tuple[Call, Tensor]:
    """Verify that stores the state after every position.

    Returns:
        The call, and the states [L, 1 + R·Q + R, H, V, K] that it fills: slot 1 + r·Q + position. Checkpoints are in the
        last R slots, which nothing writes, so that repeated calls begin with the same states.
    """
    width, (layers, _, *state) = world.geometry.width, world.pool.shape
    first = 1 + world.rows * width
    wide = world.pool.new_empty(layers, first + world.rows, *state)
    wide[:, first:] = world.pool[:, world.slots]
    return (_native_on_gpu if wide.is_cuda else _native_on_cpu)(world, wide), wide


def _native_on_gpu(world: World, wide: Tensor) -> Call:
    from replaycheck_kernels.triton.launch import recurrent_forward
    from replaycheck_kernels.triton.tables import integers, layout, slots, taps

    tokens = world.rows * world.geometry.width
    pack = layout(world.windows[0].inputs.offsets, wide.device)
    begin = slots(range(tokens + 1, tokens + 1 + world.rows), [-1] * world.rows, wide.device)
    none = taps((), tokens, wide.shape[2:], wide.device)
    steps = integers(range(1, tokens + 1), wide.device)

    def call() -> None:
        for layer, window in enumerate(world.windows):
            recurrent_forward(window.inputs, pack, wide[layer], begin, none, steps, False)

    return call


def _native_on_cpu(world: World, wide: Tensor) -> Call:
    width, kernel = world.geometry.width, KERNELS["ours/recurrent-torch"]
    firsts = 1 + width * torch.arange(world.rows)

    def call() -> None:
        for layer, window in enumerate(world.windows):
            _, states = each_position(kernel, window, wide[layer, -world.rows :], RECIPE)
            for position, state in enumerate(states):
                wide[layer, firsts + position] = state

    return call


def copy_back(world: World, wide: Tensor) -> tuple[Call, int]:
    """The state after the accepted tokens copied from ``wide`` to the checkpoint's slot. Convolution windows are left out.

    Returns:
        The call, and the bytes that it reads and writes.
    """
    firsts = 1 + world.geometry.width * torch.arange(world.rows, device=wide.device)
    plan = CopyPlan(firsts + world.accepted - 1, world.slots, torch.zeros_like(world.slots))
    nothing = tuple(world.conv.new_zeros(len(wide), len(x[0]), 1, 1) for x in (wide, world.pool))
    copy = backend(wide.device.type).copy
    moved = 2 * world.rows * len(wide) * world.geometry.state_bytes
    return lambda: copy((wide, world.pool), (nothing[0], nothing[1]), plan, 1), moved


def commit(world: World, align: Align | None) -> Call:
    """Plan, compaction of convolution windows, rebuild of states; in place."""
    calls, width = backend(world.pool.device.type), world.geometry.width

    def call() -> None:
        plan = calls.plan(world.accepted, world.lengths, world.slots, width, align)
        calls.compact(world.conv, plan, world.geometry.history, align is not None)
        calls.rebuild(world.pool, world.records, plan, world.decays, RECIPE, align is not None)

    return call


def commit_bytes(world: World, align: Align | None) -> int:
    """What a commit must move: each state and record read once, each state written once; columns of windows likewise."""
    x = world.geometry
    plan = TORCH.plan(world.accepted, world.lengths, world.slots, x.width, align)
    rows, states = int((plan.final > 0).sum()), int((plan.final > 0).sum()) + int((plan.boundary > 0).sum())
    record = x.heads * (x.value * 4 + 2 * x.key * 2)
    window = x.history * x.channels * world.conv.element_size()
    return x.layers * ((rows + states) * (x.state_bytes + window) + int(plan.length.sum()) * record)


def some_layers(world: World, layers: int = 2) -> World:
    """The first layers with pools of their own. The records of the world are filled."""
    n, records = layers, world.records
    return replace(
        world,
        windows=world.windows[:n],
        pool=world.pool[:n].clone(),
        conv=world.conv[:n].clone(),
        records=Records(*(x[:n].contiguous() for x in (records.correction, records.key, records.decay))),
        decays=replace(
            world.decays, A_log=world.decays.A_log[:n].contiguous(), dt_bias=world.decays.dt_bias[:n].contiguous()
        ),
    )


def beyond_float64(world: World) -> float:
    """Largest difference of committed states from float64, in units of what a GPU's functions and sums explain."""
    some = some_layers(world)
    start = some.pool[:, some.slots].clone()
    commit(some, None)()
    worst = 0.0
    for layer, checkpoint in enumerate(start):
        rule = Decays(some.decays.A_log[layer], some.decays.dt_bias[layer], some.decays.lower_bound)
        given = checkpoint, records_of(some.records, layer), some.accepted, rule, RECIPE
        off = (some.pool[layer, some.slots].double() - exact(*given)).abs()
        worst = max(worst, float((off / gpu_bound(*given)).max()))
    return worst


def slot_copy(geometry: Geometry, pairs: int, device: str, seed: int) -> tuple[Call, int]:
    """Copies of ``pairs`` slots of all layers in one call, from and to slots in random order.

    Returns:
        The call, and the bytes that it reads and writes.
    """
    x, draws = geometry, torch.Generator().manual_seed(seed)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    pool = torch.randn(x.layers, 2 * pairs + 1, x.heads, x.value, x.key, device=device)
    conv = torch.zeros(x.layers, 2 * pairs + 1, x.history, x.channels, device=device, dtype=kind)
    order = (torch.randperm(2 * pairs, generator=draws) + 1).to(device)
    plan = CopyPlan(
        order[:pairs].contiguous(), order[pairs:].contiguous(), torch.zeros(pairs, device=device, dtype=torch.int64)
    )
    copy: Callable[..., None] = backend(device).copy
    moved = 2 * x.layers * pairs * (pool[0, 0].nbytes + conv[0, 0].nbytes)
    return lambda: copy((pool, pool), (conv, conv), plan, x.history), moved


def plain_copy(moved: int, device: str) -> Call:
    """One copy of contiguous memory that reads and writes ``moved`` bytes."""
    source = torch.randint(0, 255, (moved // 2,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
