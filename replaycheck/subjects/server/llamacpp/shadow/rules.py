"""What decides llama.cpp's hits: options of the server and two properties of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["NAMES", "Rules"]

Value = bool | int | float | str

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "parallel": "slots",
        "ctx-size": "context",
        "ctx-checkpoints": "checkpoints",
        "checkpoint-min-step": "min_step",
        "batch-size": "batch",
        "ubatch-size": "ubatch",
        "cache-ram": "ram",
        "cache-reuse": "reuse",
        "slot-prompt-similarity": "similarity",
        "kv-unified": "unified",
        "cache-idle-slots": "idle",
    }
)
"""The server's options that count, and the fields of :class:`Rules` that they are."""


@dataclass(frozen=True)
class Rules:
    """With the server's own defaults.

    Attributes:
        recurrent: whether its memory can't be cut at any token, so that checkpoints are kept and restored.
        slots: ``--parallel``. checkpoints: of each slot. min_step: tokens between them when there are too many.
        batch, ubatch: tokens of a batch, and of a micro-batch.
        ram: MiB of the host cache; 0: none, −1: no limit, and then ``context`` tokens at most. context: tokens of all slots.
        reuse: tokens of a piece of cached text that is worth moving to another position (``--cache-reuse``); 0: none is.
        shiftable: whether the model lets text be moved. similarity: of a slot's text that makes it the one that answers.
        unified: whether slots share their keys and values. idle: whether idle slots are saved to the host cache.
    """

    recurrent: bool = True
    slots: int = 1
    checkpoints: int = 32
    min_step: int = 8192
    batch: int = 2048
    ubatch: int = 512
    ram: int = 8192
    context: int = 4096
    reuse: int = 0
    shiftable: bool = True
    similarity: float = 0.1
    unified: bool = False
    idle: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Value], **more: bool) -> Rules:
        """From the server's options by their own names; others are passed over."""
        return cls(**{NAMES[name]: value for name, value in options.items() if name in NAMES}, **more)  # type: ignore[arg-type]

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
