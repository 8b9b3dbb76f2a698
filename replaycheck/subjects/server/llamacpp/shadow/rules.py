"""What decides llama.cpp's hits: options of the server and one property of the model."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rules"]


@dataclass(frozen=True)
class Rules:
    """With the server's own defaults; names as on its command line.

    Attributes:
        recurrent: whether its memory can't be cut at any token, so that checkpoints are kept and restored.
        slots: ``--parallel``. checkpoints: ``--ctx-checkpoints``, a slot. min_step: ``--checkpoint-min-step``, tokens.
        batch, ubatch: tokens of a batch, and of a micro-batch.
        ram: MiB of the host cache; 0: none, −1: no limit, and then ``context`` tokens at most. context: tokens of all slots.
        similarity: ``--slot-prompt-similarity``. unified: ``--kv-unified``. idle: ``--cache-idle-slots``.
        reuse: ``--cache-reuse``, tokens; 0: off. shift: whether ``--context-shift`` is on.
        shiftable: whether the model lets cached text be moved to other positions.
    """

    recurrent: bool = True
    slots: int = 1
    checkpoints: int = 32
    min_step: int = 8192
    batch: int = 2048
    ubatch: int = 512
    ram: int = 8192
    context: int = 4096
    similarity: float = 0.1
    unified: bool = False
    idle: bool = True
    reuse: int = 0
    shift: bool = False
    shiftable: bool = True

    @property
    def keeps(self) -> bool:
        """Whether there are checkpoints at all."""
        return self.recurrent and self.checkpoints > 0

    @property
    def host(self) -> bool:
        """Whether there is a host cache."""
        return self.ram != 0

    @property
    def offsets(self) -> tuple[int, int]:
        """A batch ends so many tokens before a prompt's end, so that a checkpoint can be made there."""
        return min(self.batch, 4 + self.ubatch), min(self.batch, 4)
