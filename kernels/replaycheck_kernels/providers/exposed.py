"""What a package's chunk kernels hand to each other, taken while its public call runs, by the names of ``intermediates``.

Each tap stands at a function of the package that returns such tensors; the package isn't changed and its launches stay as
they are. Copies are kept, since a later kernel may write over a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .adapt import recorded
from .provider import Expose
from .shim import KernelModules

Names = tuple[str | None, ...]


@dataclass(frozen=True)
class Tap:
    """calls: for each call of the function in turn, the names of the tensors that it returns; None for others."""

    module: str
    function: str
    calls: tuple[Names, ...]


NORMS = (("q",), ("k",))
"""The norm is called for q, then for k."""


def exposing(modules: KernelModules, taps: Sequence[Tap], turned: bool = False) -> Expose:
    """A context that yields the dictionary, filled when the block ends.

    Args:
        turned: the kernel keeps states as [K, V].
    """
    loaded: list[tuple[ModuleType, Tap]] = [(modules.load(tap.module), tap) for tap in taps]

    @contextmanager
    def expose() -> Iterator[dict[str, Tensor]]:
        found: dict[str, Tensor] = {}
        with ExitStack() as stack:
            results = [stack.enter_context(recorded(module, tap.function, True, _copied)) for module, tap in loaded]
            yield found
        for (_, tap), returned in zip(loaded, results, strict=True):
            for names, values in zip(tap.calls, returned, strict=False):
                found.update(
                    {name: value[0] for name, value in zip(names, values, strict=False) if name and value is not None}
                )
        if turned and "h" in found:
            found["h"] = found["h"].transpose(-1, -2)

    return expose


def _copied(result: Any) -> tuple[Any, ...]:
    """The returned tensors as a tuple of copies; what isn't a tensor as it is."""
    values = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(value.clone() if torch.is_tensor(value) else value for value in values)
