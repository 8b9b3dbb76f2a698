"""Two tensors that should be the same: where they begin to differ, how much, and the worst element."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaOutput
from replaycheck_kernels.error_model import Predicted


@dataclass(frozen=True)
class Difference:
    """How ``found`` differs from ``expected``.

    Attributes:
        tensor: ``o`` [token, head, V] or ``state`` [sequence, head, V, K].
        elements, differing: of the tensor.
        first: index of the first differing element; ``worst``: of the one that is furthest off.
        found, expected: values of the worst element.
        relative: Frobenius norm of the difference over that of what is expected; infinite where either isn't finite.
    """

    tensor: str
    elements: int
    differing: int
    first: tuple[int, ...]
    worst: tuple[int, ...]
    found: float
    expected: float
    relative: float

    def text(self) -> str:
        """Which element, both values, and how many differ."""
        begin = f" from token {self.first[0]} on" if self.tensor == "o" else ""
        share = f"{self.differing:,} of {self.elements:,} elements, {self.differing / self.elements:.2g}"
        return (
            f"{self.tensor} differs{begin} ({share}); worst {self.tensor}{list(self.worst)}: "
            f"{self.found:.9g} where {self.expected:.9g} was expected"
        )


def difference(tensor: str, found: Tensor, expected: Tensor) -> Difference | None:
    """Of tensors [...] of one shape; None where all elements are equal. NaN equals NaN. Equal ones stay on their device."""
    if torch.equal(found, expected):
        return None
    a, b = found.detach().double().cpu(), expected.detach().double().cpu()
    off = (a != b) & ~(a.isnan() & b.isnan())
    if not bool(off.any()):
        return None
    gap = torch.where(off, (a - b).abs().nan_to_num(nan=torch.inf), 0.0)
    worst = _place(int(gap.argmax()), gap)
    return Difference(
        tensor,
        off.numel(),
        int(off.sum()),
        _place(int(off.flatten().int().argmax()), off),
        worst,
        float(a[worst]),
        float(b[worst]),
        relative(a, b),
    )


def differences(found: KdaOutput, expected: KdaOutput) -> list[Difference]:
    """Of o and of the final states, those that there are."""
    pairs = (("o", found.o, expected.o), ("state", found.final, expected.final))
    return [gap for pair in pairs if (gap := difference(*pair)) is not None]


def allowed(tensor: str, predicted: Predicted) -> float:
    """The predicted relative error of a kernel's ``o``, else of its states."""
    return predicted.output if tensor == "o" else predicted.state


def relative(found: Tensor, expected: Tensor) -> float:
    """Frobenius, of tensors [...]; infinite where something isn't finite, or where zero was expected and isn't found."""
    a, b = found.double(), expected.double()
    if not bool(a.isfinite().all() and b.isfinite().all()):
        return torch.inf
    off, size = float((a - b).norm()), float(b.norm())
    return off / size if size else (torch.inf if off else 0.0)


def _place(flat: int, like: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), like.shape))
