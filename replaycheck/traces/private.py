"""Is text of other people in these groups? An import marks its groups; what shows tokens must know."""

from __future__ import annotations

import re
from collections.abc import Iterable

from replaycheck.schema.environment import TextKind

__all__ = ["text_kind"]

# A group's source is an object; a fork event's is a name. In a text the quotes would be escaped.
_SOURCE = re.compile(rb'"source"\s*:\s*\{')


def text_kind(lines: Iterable[bytes]) -> TextKind:
    """``private`` if one of these lines of trace files is an imported group.

    >>> text_kind([b'{"group":"g","events":[{"kind":"fork","source":"a1"}]}'])
    'public'
    >>> text_kind([b'{"group":"g","source":{"format":"oasst"}}'])
    'private'
    """
    return "private" if any(_SOURCE.search(line) for line in lines) else "public"
