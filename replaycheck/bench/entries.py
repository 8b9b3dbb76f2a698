"""The functions through which engines call their kernels, timed where an adapter calls them.

An adapter casts, packs and copies before it calls its engine's function, and puts outputs together afterwards. A benchmark
wants the function alone, with the very arguments that the adapter passes. So the function in the engine's module is
replaced by an :class:`Entry`, which calls it as before; once it is armed, its next call hands itself over to be timed, still
inside the adapter's context (modules importable, no autograd, right device). No argument list is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, update_wrapper
from importlib import import_module
from types import ModuleType
from typing import Any

from replaycheck.errors import InternalError
from replaycheck_kernels.providers.sglang_calls import OPS
from replaycheck_kernels.providers.shim import KernelModules
from replaycheck_kernels.providers.vllm_calls import KDA_OPS

Call = Callable[[], object]

PLACES: dict[str, tuple[str, str]] = {
    "ours/chunk-triton": ("replaycheck_kernels.triton.launch", "chunk_forward"),
    "ours/recurrent-triton": ("replaycheck_kernels.triton.launch", "recurrent_forward"),
    "fla/chunk_kda": ("fla.ops.kda.chunk", "chunk_kda"),
    "fla/fused_recurrent_kda": ("fla.ops.kda.fused_recurrent", "fused_recurrent_kda"),
    "sglang/chunk_kda": (f"{OPS}.fla.kda", "chunk_kda"),
    "sglang/kda_packed_decode": (f"{OPS}.fla.fused_recurrent", "fused_recurrent_kda_packed_decode"),
    "vllm/chunk_kda": (f"{KDA_OPS}.chunk", "chunk_kda_with_fused_gate"),
    "vllm/kda_packed_decode": (f"{KDA_OPS}.fused_recurrent", "fused_recurrent_kda_packed_decode"),
}
"""Kernel → module and function. Ours prepares its tables before the function, as an engine prepares its metadata."""


class Entry:
    """A function of an engine that can be asked to hand over its next call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._action: Callable[[Call], object] | None = None
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        action, self._action = self._action, None
        if action is not None:
            action(partial(self._function, *args, **kwargs))
        return self._function(*args, **kwargs)

    def within(self, adapter: Call, action: Callable[[Call], object]) -> None:
        """Run ``adapter``; where it calls the function, ``action`` gets that call first, ready to be repeated.

        Raises:
            InternalError: the adapter calls another function by now.
        """
        self._action = action
        adapter()
        if self._action is not None:
            self._action = None
            raise InternalError(f"an adapter doesn't call {self._function.__module__}.{self._function.__name__}")


class Entries:
    """Entries of all kernels in ``PLACES`` whose modules are loaded while this is installed."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Entry] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While providers are loaded: their adapters keep the functions that they find then."""
        KernelModules.after_load.append(self._enter)
        try:
            yield
        finally:
            KernelModules.after_load.remove(self._enter)

    def of(self, kernel: str) -> Entry | None:
        """The entry of a kernel; None for kernels that are timed through the contract (torch and numba)."""
        place = PLACES.get(kernel)
        if place is None:
            return None
        if place not in self._found and kernel.startswith("ours/"):
            self._enter({place[0]: import_module(place[0])})
        if place not in self._found:
            raise InternalError(f"{kernel}: no function {place[1]} was loaded from {place[0]}")
        return self._found[place]

    def _enter(self, modules: Mapping[str, ModuleType]) -> None:
        for module, name in PLACES.values():
            function = getattr(modules.get(module), name, None)
            if function is not None and not isinstance(function, Entry):
                entry = self._found[module, name] = Entry(function)
                setattr(modules[module], name, entry)
