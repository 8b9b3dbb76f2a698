"""Load what can be loaded of a provider, and keep one line for what can't."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .provider import MissingPackage, ProviderKernel

Loader = Callable[[str], list[ProviderKernel]]
"""From a name, the kernel of that name and its variants."""


def collect(loaders: Mapping[str, Loader]) -> tuple[tuple[ProviderKernel, ...], dict[str, str]]:
    """The kernels that load, and {name: reason} for the others.

    Kernel files of another version may fail in any way while they are imported, so any exception is a reason.

    Raises:
        MissingPackage: nothing loads because a package is missing.
    """
    kernels: list[ProviderKernel] = []
    failures: dict[str, Exception] = {}
    for name, loader in loaders.items():
        try:
            kernels += loader(name)
        except Exception as error:
            failures[name] = error
    missing = [error for error in failures.values() if isinstance(error, MissingPackage)]
    if not kernels and missing:
        raise missing[0]
    return tuple(kernels), {name: _line(error) for name, error in failures.items()}


def _line(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0]
    return first if isinstance(error, MissingPackage) else f"{type(error).__name__}: {first}"
