"""From what a user writes after ``--kernels`` to a provider: a name of ours, an entry point's, or ``pkg.mod:factory``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from .provider import MissingPackage, Provider, ProviderError

GROUP = "replaycheck.kernels"
"""Entry point group in which another package announces a factory: ``name = "pkg.mod:factory"``."""

OURS = "ours"
ENGINES = ("fla", "sglang", "vllm")
"""Providers whose files may lie in a folder of their own."""
BUILT_IN = (OURS, *ENGINES)

Factory = Callable[..., object]


def load_provider(spec: str, path: Path | None = None) -> Provider:
    """The provider that ``spec`` names.

    Args:
        spec: ``ours``, ``fla``, ``sglang``, ``vllm``, the name of an entry point in ``replaycheck.kernels``, or
            ``pkg.mod:factory``, where ``factory()`` returns a Provider.
        path: folder with an unpacked copy of the provider's package, for the built-in ones.

    Raises:
        MissingPackage: the provider's package isn't there; the text says what to install.
        ProviderError: no such provider, or the factory didn't return one.
    """
    if spec in BUILT_IN:
        module = importlib.import_module(f"{__package__}.{spec}")
        built: Provider = module.provider(path)
        return built
    if path is not None:
        raise ProviderError(f"--kernels-path is for {', '.join(ENGINES)}; {spec!r} brings its own files")
    found = (_imported(spec) if ":" in spec else _announced(spec))()
    if not isinstance(found, Provider):
        raise ProviderError(f"{spec!r} returned a {type(found).__name__}; its factory must return a Provider")
    return found


def _imported(spec: str) -> Factory:
    """The factory at ``pkg.mod:factory``."""
    name, _, attribute = spec.partition(":")
    try:
        factory = getattr(importlib.import_module(name), attribute)
    except ModuleNotFoundError as error:
        raise MissingPackage(f"provider {spec!r}: no module {error.name!r}; install it or set PYTHONPATH") from None
    except AttributeError:
        raise ProviderError(f"provider {spec!r}: module {name} has no {attribute!r}") from None
    if not callable(factory):
        raise ProviderError(f"provider {spec!r} isn't callable; give a factory that returns a Provider")
    made: Factory = factory
    return made


def _announced(spec: str) -> Factory:
    """The factory of an entry point."""
    points = entry_points(group=GROUP)
    if spec not in points.names:
        names = ", ".join([*BUILT_IN, *sorted(points.names)])
        raise ProviderError(f"unknown kernels {spec!r}; choose one of {names}, or pkg.mod:factory")
    factory: Factory = points[spec].load()
    return factory
