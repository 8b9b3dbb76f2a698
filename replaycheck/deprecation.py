"""Names that are about to go: each still works, and says what to use instead and in which version it goes.

A module that loses ``old`` keeps it for a version by a line in :data:`replaycheck.public.DEPRECATED` and one of its own:

    __getattr__ = still_there(Deprecated(__name__, "old", "package.module.new", "0.3"))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

__all__ = ["Deprecated", "still_there"]


@dataclass(frozen=True)
class Deprecated:
    """``module.name`` is now ``instead``, and is gone in the version ``until``."""

    module: str
    name: str
    instead: str
    until: str

    @property
    def message(self) -> str:
        """What the warning says."""
        return f"{self.module}.{self.name} is deprecated and goes in version {self.until}; use {self.instead}"


def still_there(*old: Deprecated) -> Callable[[str], object]:
    """The ``__getattr__`` of a module (PEP 562) that gives the new objects under the ``old`` names, with a warning.

    Raises:
        AttributeError: from it, for any other name.
    """
    known = {each.name: each for each in old}

    def find(name: str) -> object:
        if name not in known:
            raise AttributeError(f"no name {name!r} here; see replaycheck.public for those that others may use")
        warnings.warn(known[name].message, DeprecationWarning, stacklevel=2)
        module, _, attribute = known[name].instead.rpartition(".")
        return getattr(import_module(module), attribute)

    return find
