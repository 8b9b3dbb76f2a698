"""What a rollback method is run with, and what it refuses.

Engines find some of these out at the first accepted draft, in the middle of serving; here they are usage errors with the
reason, before anything runs. Facts: vLLM 0.33.0 (``models/kimi_k3/nvidia/ops/recoverssm.py``,
``model_executor/layers/mamba/mamba_utils.py:133``) and SGLang 0.5.23 (``kda_replayssm_spec_decode.py``, mamba_hook.py:133).
"""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.errors import UsageError
from replaycheck.schema.arm import PoolDtype, Rollback

__all__ = ["Rollback", "Setup"]

_ENGINE = {Rollback.SLOTS: "vLLM", Rollback.RECOVER: "vLLM", Rollback.COPY: "SGLang", Rollback.REPLAY: "SGLang"}


@dataclass(frozen=True)
class Setup:
    """A method with its sizes.

    Attributes:
        width: most tokens of a window, 1 + drafts.
        history: inputs that the convolution's state holds.
        block: tokens an aligned block (RecoverSSM with a prefix cache); None without.
        capacity: tokens in ReplaySSM's ring; None for the other methods.
        interval: tokens between snapshots taken while verifying (SGLang's track interval); None without.

    Raises:
        UsageError: a combination that can't work.
    """

    method: Rollback
    width: int
    pool: PoolDtype = PoolDtype.FP32
    history: int = 3
    block: int | None = None
    capacity: int | None = None
    interval: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1 or self.history < 1:
            raise UsageError(f"window of {self.width} tokens, history of {self.history}: both must be at least 1")
        self._check_dtype()
        self._check_block()
        self._check_ring()
        if self.interval is not None and self.interval < self.width:
            raise UsageError(
                f"snapshots every {self.interval} tokens with windows of {self.width}: one window could cross two "
                "snapshot points and only one is stored; give an interval of at least the window"
            )

    def _check_dtype(self) -> None:
        if self.pool is PoolDtype.FP16 and _ENGINE[self.method] == "vLLM":
            raise UsageError(
                f"rollback {self.method!s} is vLLM's, whose KDA states are fp32 or bf16; fp16 needs rollback copy or replay"
            )

    def _check_block(self) -> None:
        if self.block is None:
            return
        if self.method not in (Rollback.RECOVER, Rollback.SLOTS):
            raise UsageError(f"an aligned block is of rollback recover or slots, not {self.method!s}")
        if self.block < self.width:
            raise UsageError(
                f"aligned blocks of {self.block} tokens with windows of {self.width}: one window could complete two "
                "blocks and only one boundary is stored (vLLM accepts this setting and fails at the first accepted "
                "draft); give a block of at least the window"
            )

    def _check_ring(self) -> None:
        if self.method is not Rollback.REPLAY:
            if self.capacity is not None:
                raise UsageError(f"a ring is of rollback replay, not {self.method!s}")
            return
        if self.capacity is None or self.capacity < self.width:
            raise UsageError(
                f"a ring of {self.capacity} tokens with windows of {self.width}: accepted inputs would overwrite each "
                "other; give a ring of at least the window"
            )
