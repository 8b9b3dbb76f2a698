"""Providers that a test made itself, findable by the name that a run takes: ``replaycheck.testing.given:given_1``.

A run names its kernels by text, since its workers may be other processes. A test's run has one worker, in this process, so
an object can be found here for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from replaycheck_kernels.providers import Provider

__all__ = ["named"]

_PROVIDERS: dict[str, Provider] = {}
_numbers = count(1)
"""A name is never used twice: networks are kept by their kernels' name."""


@contextmanager
def named(provider: Provider) -> Iterator[str]:
    """The text that ``--kernels`` takes for ``provider``, valid until the block ends."""
    name = f"given_{next(_numbers)}"
    _PROVIDERS[name] = provider
    try:
        yield f"{__name__}:{name}"
    finally:
        del _PROVIDERS[name]


def __getattr__(name: str) -> Callable[[], Provider]:
    if name not in _PROVIDERS:
        raise AttributeError(name)
    return lambda: _PROVIDERS[name]
