"""Windows of one layer: outputs of every position, and the state after the kept tokens, by each of the four methods.

``slots`` and ``copy`` run the decode kernel token by token and hand out the state after every position; which of them is
next is the plan's choice. ``replay`` runs the raw inputs of the kept tokens once more from the checkpoint. ``recover``
verifies with records and rebuilds from them (RecoverSSM): in torch on the CPU, in Triton on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck.schedule.steps import Kept
from replaycheck.schema.arm import Rollback
from replaycheck_kernels.contract import KdaInputs, KdaOutput, StateKernel
from replaycheck_kernels.recipe import Recipe
from replaycheck_kernels.speculation.backend import TORCH, Backend, stack, triton_backend
from replaycheck_kernels.speculation.commit import Decays
from replaycheck_kernels.speculation.verify import each_position
from replaycheck_kernels.speculation.window import Windows, take, windows

from .device import uses_triton


@dataclass(frozen=True)
class Verify:
    """A row that is a window. kept: what stays of each part of the state. scored: its first tokens, whose logits count.

    lags: with rollback replay, the raw inputs of what is kept are wanted, too.
    """

    method: Rollback
    kept: Kept
    scored: int
    lags: bool = False


def backend(device: torch.device) -> Backend:
    """RecoverSSM's kernels on a device."""
    return triton_backend() if uses_triton(device) else TORCH


def no_recover(recipe: Recipe, device: str) -> str | None:
    """Why a recipe's windows can't be recovered on a device, or None if they can."""
    if device == "cpu":
        return None
    from replaycheck_kernels.speculation.triton.support import check, rsqrt

    try:
        check(recipe, (), torch.empty(1))
        rsqrt(recipe)
    except ValueError as error:
        return str(error)
    return None


def kernel_name(method: Rollback, decode: StateKernel, device: torch.device) -> str:
    """The kernel that computes a window's outputs, as a run records it."""
    return f"ours/verify-{backend(device).name}" if method is Rollback.RECOVER else decode.name


def run_windows(
    method: Rollback,
    inputs: KdaInputs,
    initial: Tensor,
    kept: Sequence[int],
    taps: Sequence[tuple[int, int]],
    kernel: StateKernel,
    recipe: Recipe,
) -> KdaOutput:
    """Run R windows and roll them back.

    Args:
        initial: [R, HV, V, K], not written. kept: tokens of each window that stay. taps: (row, tokens) of further states.
        kernel: the recurrent form.

    Returns:
        o of all positions, packed as the inputs; the states after the kept tokens; those of the taps.
    """
    if method is Rollback.RECOVER:
        return _recover(inputs, initial, kept, taps, recipe)
    if method is Rollback.REPLAY:
        return _replay(inputs, initial, kept, taps, kernel, recipe)
    return _positions(inputs, initial, kept, taps, kernel, recipe)


def _positions(
    inputs: KdaInputs,
    initial: Tensor,
    kept: Sequence[int],
    taps: Sequence[tuple[int, int]],
    kernel: StateKernel,
    recipe: Recipe,
) -> KdaOutput:
    padded = _padded(inputs)
    o, after = each_position(kernel, padded, initial, recipe)
    states = torch.stack([initial, *after], 1)
    return KdaOutput(_packed(o, inputs), _at(states, list(enumerate(kept))), _at(states, taps))


def _at(states: Tensor, wanted: Sequence[tuple[int, int]]) -> Tensor:
    """states [R, 1 + Q, HV, V, K]: those of the wanted (row, tokens)."""
    rows, tokens = ([pair[side] for pair in wanted] for side in (0, 1))
    return states[rows, tokens]


def _replay(
    inputs: KdaInputs,
    initial: Tensor,
    kept: Sequence[int],
    taps: Sequence[tuple[int, int]],
    kernel: StateKernel,
    recipe: Recipe,
) -> KdaOutput:
    verified = kernel(inputs, initial, (), recipe)
    wanted = [*enumerate(kept), *taps]
    ring = [inputs.offsets[row] + i for row, tokens in wanted for i in range(tokens)]
    raw = take(inputs, torch.tensor(ring, device=initial.device), [tokens for _, tokens in wanted])
    states = kernel(raw, initial[[row for row, _ in wanted]], (), recipe).final
    return KdaOutput(verified.o, states[: len(kept)], states[len(kept) :])


def _recover(
    inputs: KdaInputs, initial: Tensor, kept: Sequence[int], taps: Sequence[tuple[int, int]], recipe: Recipe
) -> KdaOutput:
    """The checkpoints lie in a pool whose slot 0 is null, as the kernels have it; it is thrown away afterwards."""
    kernels, padded = backend(initial.device), _padded(inputs)
    checkpoints = torch.cat([initial.new_full((1, *initial.shape[1:]), float("nan")), initial])
    slots = torch.arange(1, len(kept) + 1, device=initial.device)
    done = kernels.verify(padded, checkpoints, slots, recipe)

    def rebuilt(lengths: Sequence[int]) -> Tensor:
        pool = checkpoints.clone()[None]
        plan = kernels.plan(torch.tensor(lengths, device=initial.device), padded.lengths, slots, padded.width)
        decays = Decays(inputs.A_log[None], inputs.dt_bias[None], inputs.lower_bound)
        kernels.rebuild(pool, stack([done.records]), plan, decays, recipe, False)
        return pool[0, 1:]

    further = [rebuilt([tokens] * len(kept))[row] for row, tokens in taps]
    snapshots = torch.stack(further) if further else initial[:0]
    return KdaOutput(_packed(done.o, inputs), rebuilt(kept), snapshots)


def _padded(inputs: KdaInputs) -> Windows:
    return windows(inputs, max(inputs.lengths()))


def _packed(o: Tensor, inputs: KdaInputs) -> Tensor:
    """o [R, Q, HV, V] without its padding: [N, HV, V], in the dtype of the computation."""
    return torch.cat([o[row, :length] for row, length in enumerate(inputs.lengths())]).to(inputs.v.dtype)
