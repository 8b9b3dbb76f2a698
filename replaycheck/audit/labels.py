"""Labels of stored states: what a slot is said to hold, and whether it does.

A label is made when a state is stored. It names the state and its position, the tensors of a slot with their dtypes and
shapes, and a checksum of their bytes. At each restore the slot that is read must have that label's tensors and bytes; at
each store, restore, fork and tier copy the plan's own content must be the state of that name, which the integer simulator
says. The audit records, or raises when it is asked to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from replaycheck.errors import ExitCode, ReplayCheckError

__all__ = ["Audit", "AuditError", "AuditMode", "StateLabel", "TensorBytes", "label_of"]


class AuditMode(StrEnum):
    """What happens when a slot doesn't hold what its label says."""

    RECORD = "record"
    RAISE = "raise"


class AuditError(ReplayCheckError):
    """A slot doesn't hold what its label says, and the audit was asked to raise: a verdict, as a failed gate is."""

    exit_code = ExitCode.FAIL


@dataclass(frozen=True)
class TensorBytes:
    """A tensor of a slot: dtype as a word, shape, raw bytes as uint8 [n]."""

    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


@dataclass(frozen=True)
class StateLabel:
    """What is said of a stored state.

    Attributes:
        name, position: of the checkpoint; tokens in the state.
        inventory: tensors by name, with dtype and shape, layers first: the layout of a slot.
        checksum: crc32 of the tensors' bytes in that order. One of 2^32 wrong states passes by chance.
    """

    name: str
    position: int
    inventory: tuple[tuple[str, str, tuple[int, ...]], ...]
    checksum: int


def label_of(name: str, position: int, tensors: Mapping[str, TensorBytes]) -> StateLabel:
    """The label of a state whose tensors are these."""
    checksum = 0
    for part in tensors.values():
        checksum = crc32(part.data.data, checksum)
    inventory = tuple((key, part.dtype, part.shape) for key, part in tensors.items())
    return StateLabel(name, position, inventory, checksum)


@dataclass
class Audit:
    """The labels of one arm on one group. ``where`` names both in messages; ``content``: restores and stores with other
    tensors or bytes than their label's."""

    where: str
    mode: AuditMode = AuditMode.RECORD
    content: int = 0
    _labels: dict[str, StateLabel] = field(default_factory=dict)

    def stored(self, slot: int, name: str, position: int, tensors: Mapping[str, TensorBytes]) -> StateLabel:
        """A state was stored. Under a name that has a label already it was moved, and must have kept its bytes."""
        label = label_of(name, position, tensors)
        if name in self._labels:
            self._compare(slot, self._labels[name], label)
        return self._labels.setdefault(name, label)

    def restored(self, slot: int, name: str, position: int, tensors: Mapping[str, TensorBytes]) -> None:
        """A row reads a slot that is said to hold a stored state."""
        label = self._labels.get(name)
        if label is None:
            self._content(f"slot {slot} is said to hold {name}, {position} tokens; nothing was stored under that name")
        else:
            self._compare(slot, label, label_of(name, position, tensors))

    def misplaced(self, text: str) -> None:
        """The plan's content of a slot isn't what its label means; the plan's simulator counts these."""
        self._raise(text)

    def _compare(self, slot: int, label: StateLabel, held: StateLabel) -> None:
        said = f"slot {slot} is said to hold {label.name}, {label.position} tokens"
        if held.inventory != label.inventory:
            self._content(f"{said}, as {_layout(label)}; it holds {_layout(held)}")
        elif held.checksum != label.checksum:
            self._content(f"{said}, checksum {label.checksum:08x}; its bytes have {held.checksum:08x}")

    def _content(self, text: str) -> None:
        self.content += 1
        self._raise(text)

    def _raise(self, text: str) -> None:
        if self.mode is AuditMode.RAISE:
            raise AuditError(
                f"audit: {self.where}: {text}; leave out --audit raise to measure what that does to the answers"
            )


def _layout(label: StateLabel) -> str:
    return ", ".join(f"{name} {dtype} {list(shape)}" for name, dtype, shape in label.inventory)
