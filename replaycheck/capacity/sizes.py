"""Bytes of one request on one rank under each rollback method. All formulas are in ``docs/capacity.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replaycheck.errors import UsageError
from replaycheck.schedule.speculation.method import Rollback
from replaycheck.schema.arm import PoolDtype

from .geometry import Geometry

__all__ = ["POOL_BYTES", "Layout", "Sizes", "sizes"]

POOL_BYTES: Final = {PoolDtype.FP32: 4, PoolDtype.BF16: 2, PoolDtype.FP16: 2}
ACTIVATION: Final = 2
"""Bytes of an activation: bf16, also the dtype of convolution states, keys and raw decays."""
FP32: Final = 4


@dataclass(frozen=True)
class Layout:
    """How a model is run.

    Attributes:
        pool: dtype of the temporal states. drafts: d, a window has 1 + d tokens; 0 without speculation.
        tp: ranks that heads are split over.
        ring: tokens in ReplaySSM's ring; None for two windows, the least that SGLang takes.
    """

    pool: PoolDtype = PoolDtype.FP32
    drafts: int = 0
    tp: int = 1
    ring: int | None = None

    @property
    def window(self) -> int:
        return 1 + self.drafts

    @property
    def ring_tokens(self) -> int:
        return self.ring or 2 * self.window


@dataclass(frozen=True)
class Sizes:
    """Bytes a request and rank.

    Attributes:
        temporal: one recurrent state, all layers. conv: its convolution window without speculation.
        conv_window: the extended window that holds a whole verify.
        records: RecoverSSM's corrections, keys and decays. ring: ReplaySSM's raw inputs.
        by_method: what a request takes under each rollback method, everything included.
        token: what attention caches for one token (not split by heads).
    """

    temporal: int
    conv: int
    conv_window: int
    records: int
    ring: int
    by_method: dict[Rollback, int]
    token: int

    @property
    def page(self) -> int:
        """One slot of an engine that keeps temporal state and extended window together."""
        return self.temporal + self.conv_window


def sizes(geometry: Geometry, layout: Layout) -> Sizes:
    """All sizes of one request.

    Raises:
        UsageError: the tensor-parallel degree doesn't divide the heads, or the ring is smaller than a window.
    """
    if geometry.heads % layout.tp:
        raise UsageError(f"--tp {layout.tp} doesn't divide the {geometry.heads} heads; give a divisor")
    if layout.ring_tokens < layout.window:
        raise UsageError(
            f"--ring {layout.ring} is smaller than the window of {layout.window} tokens; give at least that"
        )
    heads = geometry.layers * (geometry.heads // layout.tp)
    temporal = heads * geometry.value * geometry.key * POOL_BYTES[layout.pool]
    column = heads * (2 * geometry.key + geometry.value) * ACTIVATION
    history = geometry.conv_width - 1
    conv, extended = history * column, (history + layout.drafts) * column
    records = heads * layout.window * (geometry.value * FP32 + 2 * geometry.key * ACTIVATION)
    # k and v as activations, the activated decay in fp32 and beta in fp32, as SGLang's ring for KDA stores them.
    a_token = (geometry.key + geometry.value) * ACTIVATION + (geometry.key + 1) * FP32
    ring = heads * layout.ring_tokens * a_token
    methods = {
        Rollback.SLOTS: layout.window * (temporal + extended),
        Rollback.COPY: temporal + conv + layout.window * temporal + extended,
        Rollback.RECOVER: temporal + extended + records,
        Rollback.REPLAY: temporal + conv + ring + extended,
    }
    token = geometry.attention_layers * geometry.latent * ACTIVATION
    return Sizes(temporal, conv, extended, records, ring, methods, token)
