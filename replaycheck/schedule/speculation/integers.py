"""The integer formulas of speculation in the engines, one function each; positions count computed tokens.

Checked against the worked tables of ``engines.md`` §11 and against the symbolic run of whole plans.
"""

from __future__ import annotations

from dataclasses import dataclass


def track_step(before: int, kept: int, interval: int) -> int | None:
    """Position in the window whose state is a snapshot, or None (SGLang 0.5.23, speculative/spec_utils.py:943-1000).

    The window keeps tokens before … before + kept − 1. A snapshot point is a multiple of the interval; it is crossed only
    by kept tokens, so that the position is never that of a rejected draft.
    """
    after = before + kept
    if before // interval == after // interval:
        return None
    return interval * (after // interval) - before - 1


@dataclass(frozen=True)
class BlockCopy:
    """Copy to block column ``destination``: convolution from column ``bias`` of its window, temporal ``bias`` slots on."""

    destination: int
    bias: int


def align_postprocess(computed: int, scheduled: int, drafts: int, accepted: int, block: int) -> BlockCopy | None:
    """The copy after sampling that saves a block's boundary state (vLLM 0.33.0, v1/worker/mamba_utils.py:369-500).

    Args:
        accepted: tokens kept of the window, the first one included.
    """
    running = computed + scheduled - drafts
    aligned = (running + accepted - 1) // block * block
    return BlockCopy(aligned // block - 1, aligned - running) if aligned >= running else None


def running_column(after: int, block: int) -> int:
    """Block column that a step works in whose last token is number ``after`` (pre-copy: :549-631)."""
    return max(after - 1, 0) // block


@dataclass(frozen=True)
class RecoverPlan:
    """RecoverSSM's commit of one row: columns of a block table; None where nothing is stored."""

    length: int
    final: int | None
    boundary: int | None
    boundary_length: int


def recover_plan(computed: int, accepted: int, window: int, width: int, block: int, columns: int) -> RecoverPlan:
    """Commit length, final column and boundary (vLLM 0.33.0, recoverssm.py:233-321).

    A state that ends exactly on a boundary belongs to the block that it completes, hence the −1 of the final column.
    """
    length = min(max(accepted, 0), window, width)
    if length == 0:
        return RecoverPlan(0, None, None, 0)
    final = min(running_column(computed + length, block), columns - 1)
    edge = (computed // block + 1) * block
    if computed + length < edge:
        return RecoverPlan(length, final, None, 0)
    return RecoverPlan(length, final, edge // block - 1, edge - computed)
