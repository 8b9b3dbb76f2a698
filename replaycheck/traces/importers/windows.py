"""Formats without sessions: so many requests in a row make a group, so that memory doesn't grow with the file.

What a request shares with one of another group isn't seen by a cache, since groups are served apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from .api import Context
from .blocks import Call, grow
from .draft import DraftGroup
from .source import SourceFile

__all__ = ["grow_by_root", "windows"]

#: Tokens of all prompts of a group; a group of the largest real prompts (0.9 M tokens) holds a few.
_MAX_TOKENS = 4_000_000


def windows(calls: Iterable[Call], size: int, most: int = _MAX_TOKENS) -> Iterator[list[Call]]:
    """At most ``size`` calls in a row, and ``most`` tokens unless one call has more."""
    window: list[Call] = []
    tokens = 0
    for call in calls:
        length = sum(span.length for span in call.spans) + call.out
        if window and (len(window) == size or tokens + length > most):
            yield window
            window, tokens = [], 0
        window.append(call)
        tokens += length
    if window:
        yield window


def grow_by_root(
    source: SourceFile,
    calls: Iterable[Call],
    context: Context,
    prepare: Callable[[list[Call]], Sequence[Call]] = lambda calls: calls,
) -> Iterator[DraftGroup]:
    """A group a window; in it a trace for each first block, since prompts that begin differently share nothing."""
    for number, window in enumerate(windows(calls, context.options.group_size), 1):
        group = DraftGroup(source, f"window-{number}")
        by_root: dict[object, list[Call]] = {}
        for call in prepare(window):
            by_root.setdefault(call.spans[0].key, []).append(call)
        for root, part in enumerate(by_root.values(), 1):
            grow(group, group.trace(f"tree-{root}"), part, context.log)
        yield group
