"""Groups of several sessions whose requests take turns, so that requests of different sessions can be in flight at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replaycheck.bench.sessions import Shape, group_of

__all__ = ["write_groups"]


def write_groups(path: Path, groups: int, sessions: int, shape: Shape) -> None:
    """Write ``groups`` lines of ``sessions`` conversations each."""
    lines = (
        json.dumps(_joined([_one(at, group, sessions, shape) for at in range(sessions)])) for group in range(groups)
    )
    path.write_text("".join(line + "\n" for line in lines))


def _one(at: int, group: int, sessions: int, shape: Shape) -> dict[str, Any]:
    return dict(group_of(group * sessions + at, shape))


def _joined(single: list[dict[str, Any]]) -> dict[str, Any]:
    """One group: the first turns of all sessions, then their second ones, and so on."""
    turns = zip(*(each["requests"] for each in single), strict=True)
    return single[0] | {
        "traces": [trace for each in single for trace in each["traces"]],
        "requests": [request for turn in turns for request in turn],
    }
