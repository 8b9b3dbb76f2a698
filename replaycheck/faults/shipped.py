"""The faults that ship, by name."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.schema.arm import Compiler
from replaycheck_kernels.recipe import Recipe

from .fault import Fault
from .plans import bf16_snapshot, commit_late, conv_late, lost_checkpoint, restore_late, tail_kernel


def beta_raw(recipe: Recipe) -> Recipe:
    """Beta goes into the delta without its sigmoid."""
    return replace(recipe, beta_site="nowhere")


def via_bf16(state: Tensor, dtype: torch.dtype) -> Tensor:
    """A cast that passes through bf16, whatever its target."""
    return state.to(torch.bfloat16).to(dtype)


_ALL = (
    Fault(
        "bf16-snapshot",
        "snapshots inside an extend came from the per-chunk states, which have the activation dtype (SGLang PR 34820)",
        "RC101",
        schedule=bf16_snapshot,
    ),
    Fault(
        "conv-late",
        "the conv window of a snapshot is gathered one token off the state's position",
        "RC202",
        schedule=conv_late,
    ),
    Fault(
        "tail-kernel",
        "switching checkpoints on reroutes the extend to another kernel",
        "RC601",
        schedule=tail_kernel,
    ),
    Fault(
        "restore-late",
        "a hit restores the slot of a later checkpoint than the one that the cache matched",
        "RC201",
        schedule=restore_late,
    ),
    Fault(
        "lost-checkpoint",
        "a stored state isn't found again, so a hit that the cache promised doesn't happen",
        "RC301",
        schedule=lost_checkpoint,
    ),
    Fault(
        "commit-late",
        "the state that is committed after a verify is one token further than what was accepted",
        "RC201",
        schedule=commit_late,
    ),
    Fault(
        "via-bf16",
        "a store casts fp32 to bf16 first and then to the pool dtype",
        "RC102",
        cast=via_bf16,
    ),
    Fault(
        "beta-raw",
        "a prefill kernel skipped the sigmoid of beta (SGLang PR 40685)",
        "RC110",
        enters=frozenset({Compiler.COLD, Compiler.WARM}),
        recipe=beta_raw,
    ),
)

FAULTS = {fault.name: fault for fault in _ALL}
