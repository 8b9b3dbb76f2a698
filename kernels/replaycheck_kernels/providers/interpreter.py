"""Repairs that let kernels of other packages run in Triton's interpreter, on a machine without a GPU.

For a process of its own: the repairs change Triton for the whole process, so they are applied by ``interpreted`` in a
child that has ``TRITON_INTERPRET=1``, never in a test process. What the interpreter shows is the maths, the indices and
the plans; bits differ from a GPU's (fp32 products are exact to fp32 here and tf32 there, sums run in another order).

Found in Triton 3.8.0's ``runtime/interpreter.py``, which keeps bf16 as uint16:
1. products, sums and comparisons of bf16 act on the bit patterns, and the cast from fp32 truncates;
2. autotuning needs a driver as soon as there are two configurations: the first one is taken;
3. ``range`` yields Python integers, on which kernels call ``.to(dtype)``;
4. an alias such as ``exp = tl.exp`` keeps the unpatched function, as launches patch the attributes of ``tl``;
5. functions of ``libdevice`` return None: ``tl``'s function of the same name stands in, in what Helion generates, too.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from .shim import KernelModules

Bits = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]

_QUIET_NAN = np.uint16(0x7FC0)


def widen(bits: Bits) -> Floats:
    """bf16 bit patterns as fp32; exact."""
    wide: Floats = (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def narrow(values: npt.NDArray[Any]) -> Bits:
    """fp32 to bf16 bit patterns, to nearest, ties to even; NaN stays NaN (the carry would turn some into infinities)."""
    exact = np.ascontiguousarray(values, dtype=np.float32)
    raw = exact.view(np.uint32).astype(np.uint64)
    rounded = (raw + np.uint64(0x7FFF) + ((raw >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    bits: Bits = np.where(np.isnan(exact), _QUIET_NAN, rounded.astype(np.uint16)).reshape(np.shape(values))
    return bits


def repair_triton() -> None:
    """Apply repairs 1 and 2 to this process, and have repairs 3 to 5 applied to kernel modules as they are loaded.

    Raises:
        RuntimeError: the process wasn't started for the interpreter.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("interpreter repairs are for a process with TRITON_INTERPRET=1; run the probe in a child")
    import triton.language as tl
    from triton.runtime import interpreter

    _first_configuration()
    sums = ((interpreter.ReduceOps, "sum"), (interpreter.ScanOps, "cumsum"))
    _Bf16(interpreter.TensorHandle, tl).apply(interpreter.InterpreterBuilder, sums)
    KernelModules.after_load.append(repair_modules)
    _device_functions_of_generated_code()


def repair_modules(modules: Mapping[str, ModuleType]) -> None:
    """Apply repairs 3 to 5 to loaded kernel modules, and take device contexts out of their wrappers."""
    from triton.language.extra import libdevice

    names = _builtins_of_triton()
    for module in modules.values():
        scope = vars(module)
        if "helion" in scope:  # what is interpreted is the Triton that Helion makes of it
            continue
        for name, value in list(scope.items()):
            if id(value) in names:
                scope[name] = _late(*names[id(value)])
            elif value is libdevice:
                scope[name] = _Device()
        scope["range"] = _counted
        if "custom_device_ctx" in scope:
            scope["custom_device_ctx"] = lambda index: nullcontext()


class _Index(int):
    """A loop index with the one tensor method that kernels call on it."""

    def to(self, dtype: object) -> _Index:
        return self


class _Device:
    """In place of ``libdevice``."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        import triton.language as tl

        return _late(tl, name)


def _device_functions_of_generated_code() -> None:
    """What Helion generates imports device functions from inductor, and those are of ``libdevice``."""
    from torch._inductor.runtime import triton_compat, triton_helpers

    vars(triton_compat)["libdevice"] = _Device()
    vars(triton_helpers)["math"] = _Device()


def _counted(*bounds: Any) -> Iterator[_Index]:
    return map(_Index, builtins.range(*(int(bound) for bound in bounds)))


def _builtins_of_triton() -> dict[int, tuple[ModuleType, str]]:
    """Identity of each function of ``tl`` and ``tl.math`` that a launch patches, with where to look it up."""
    import triton.language as tl

    found: dict[int, tuple[ModuleType, str]] = {}
    for module in (tl.math, tl):
        for name, value in vars(module).items():
            if getattr(value, "__triton_builtin__", False):
                found[id(value)] = (module, name)
    return found


def _late(module: ModuleType, name: str) -> Callable[..., Any]:
    """The function of that name at the time of the call."""
    return lambda *args, **kwargs: getattr(module, name)(*args, **kwargs)


def _first_configuration() -> None:
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.configs = self.configs[:1]
        return original(self, *args, **kwargs)

    Autotuner.run = run


Method = Callable[..., Any]


class _Bf16:
    """Wrappers of the interpreter's methods: bf16 operands are computed in fp32 and rounded once, as on a GPU."""

    def __init__(self, handle: Any, language: Any) -> None:
        self._handle = handle
        self._bf16, self._fp32, self._bool = language.bfloat16, language.float32, language.int1

    def apply(self, builder: type, reductions: Iterable[tuple[type, str]]) -> None:
        _wrap(builder, ("cast_impl", "create_fp_to_fp"), self.cast)
        _wrap(builder, ("unary_op",), lambda original: self.arithmetic(original, 1))
        _wrap(builder, ("binary_op",), lambda original: self.arithmetic(original, 2))
        _wrap(builder, ("ternary_op", "create_fma"), lambda original: self.arithmetic(original, 3))
        _wrap(
            builder, ("create_dot",), lambda original: lambda b, x, y, *rest: original(b, self.up(x), self.up(y), *rest)
        )
        for owner, name in reductions:
            _wrap(owner, (name,), self.refused)
        vars_of_builder: Any = builder
        vars_of_builder.get_bf16 = lambda b, value: self._handle(narrow(np.array([value])), self._bf16)

    def is_bf16(self, x: Any) -> bool:
        return bool(x.dtype.scalar == self._bf16)

    def up(self, x: Any) -> Any:
        return self._handle(widen(x.data), self._fp32) if self.is_bf16(x) else x

    def down(self, x: Any) -> Any:
        """A result of fp32 arithmetic as bf16; a comparison's result, which the interpreter calls fp32, as bool."""
        if x.data.dtype == np.bool_:
            return self._handle(x.data, self._bool)
        return self._handle(narrow(x.data), self._bf16) if x.data.dtype == np.float32 else x

    def cast(self, original: Method) -> Method:
        def call(builder: Any, source: Any, target: Any, *rest: Any) -> Any:
            if self.is_bf16(source) == (target.scalar == self._bf16):
                return original(builder, source, target, *rest)
            if not self.is_bf16(source):
                return self._handle(narrow(np.asarray(source.data).astype(np.float32)), self._bf16)
            wide = self.up(source)
            return wide if target.scalar == self._fp32 else original(builder, wide, target, *rest)

        return call

    def arithmetic(self, original: Method, operands: int) -> Method:
        def call(builder: Any, *args: Any) -> Any:
            handles = args[:operands]
            if not any(map(self.is_bf16, handles)):
                return original(builder, *args)
            return self.down(original(builder, *map(self.up, handles), *args[operands:]))

        return call

    def refused(self, original: Method) -> Method:
        def call(reduction: Any, x: Any) -> Any:
            if self.is_bf16(x):
                raise NotImplementedError("the interpreter repair has no sums of bf16 tensors; cast to fp32 first")
            return original(reduction, x)

        return call


def _wrap(owner: type, names: Iterable[str], wrapper: Callable[[Method], Method]) -> None:
    """Replace the methods that this version of Triton has."""
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, wrapper(getattr(owner, name)))
