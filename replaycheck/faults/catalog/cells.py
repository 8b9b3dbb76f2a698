"""Small cells that several faults share: the group, the cache and the events in which a fault shows first."""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schema.arm import Padding, PoolDtype, Rollback, Side
from replaycheck.schema.policy import CheckpointPolicy, SglangPolicy, VllmPolicy

from ..cell import SmallCell

GRID = CheckpointPolicy(every=64)
PROMPT = CheckpointPolicy(prompt_end=True)
SMALL = CheckpointPolicy(every=64, turn_end=True, capacity=2)
DOUBLE = SglangPolicy(cache="sglang-extra-buffer", track_interval=64)
BLOCKS = VllmPolicy(cache="vllm-align", block=32, retain="all")
NO_CACHE = VllmPolicy(cache="vllm-none")

TURNS = SmallCell("chat")
"""A decoded state is restored at each turn."""
SHORT = SmallCell("short")
INTERIOR = SmallCell("twice", GRID)
"""A state inside an extend that ends off the grid is restored."""
HALF = SmallCell("half", GRID)
"""The first of three states inside an extend is restored."""
ALIGNED = SmallCell("aligned", GRID)
"""A state at the end of an extend that ends on the grid is restored."""
MATES = SmallCell("mates", GRID)
"""Three sequences in one pass; each one's state is restored later."""
STRANGERS = SmallCell("strangers")
BEAM = SmallCell("beam", NO_CACHE)
PREEMPTED = SmallCell("preempted", NO_CACHE)
TIERS = SmallCell("tiers")
RANKS = SmallCell("short", tensor_parallel=2)
PADDED = SmallCell("short", padding=Padding(side=Side.LEFT))
WINDOWS = SmallCell("speculative", rollback=Rollback.RECOVER)
COLUMNS = SmallCell("speculative", rollback=Rollback.SLOTS)
ACCEPTED = SmallCell("accepted", rollback=Rollback.RECOVER)
WINDOW_MATES = SmallCell("window-mates", rollback=Rollback.RECOVER)
RING = SmallCell("speculative", rollback=Rollback.REPLAY)


def pooled(cell: SmallCell, pool: PoolDtype) -> SmallCell:
    """The cell with another pool dtype."""
    return replace(cell, pool=pool)
