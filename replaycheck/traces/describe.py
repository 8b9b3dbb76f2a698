"""The sizes of groups, and where each request's prompt and answer end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from replaycheck.schema.arm import CHUNK
from replaycheck.schema.trace import Group
from replaycheck.traces.tree import request_paths

__all__ = ["GroupSummary", "group_record", "summaries", "totals"]


@dataclass(frozen=True)
class GroupSummary:
    """The size of a group, in tokens unless it says otherwise."""

    group: str
    archetype: str
    #: how many
    traces: int
    #: how many
    requests: int
    #: in all trees, each turn and BOS once
    tokens: int
    #: sum over requests: what is prefilled when the cache is off
    prompt_tokens: int
    #: sum over requests: content and END
    answer_tokens: int


def summaries(groups: Sequence[Group]) -> list[GroupSummary]:
    """A line a group for ``trace list``."""
    return [_summary(group) for group in groups]


def _summary(group: Group) -> GroupSummary:
    paths = request_paths(group)
    return GroupSummary(
        group=group.group,
        archetype=group.archetype,
        traces=len(group.traces),
        requests=len(paths),
        tokens=sum(1 + sum(len(turn.tokens) for turn in trace.turns) for trace in group.traces),
        prompt_tokens=sum(path.prompt for path in paths),
        answer_tokens=sum(len(path.answer) for path in paths),
    )


def totals(groups: Sequence[Group]) -> Mapping[str, int]:
    """The sizes of several groups, added up."""
    parts = summaries(groups)
    fields = ("traces", "requests", "tokens", "prompt_tokens", "answer_tokens")
    return {"groups": len(parts)} | {field: sum(getattr(part, field) for part in parts) for field in fields}


def group_record(group: Group) -> Mapping[str, object]:
    """What ``trace show --json`` says of a group: its size, and where each request's prompt and answer end."""
    return asdict(_summary(group)) | {
        "request_list": [
            {
                "trace": path.trace,
                "turn": path.turn,
                "branch": path.branch,
                "turn_index": path.turn_index,
                "prompt": path.prompt,
                "prompt_mod_chunk": path.prompt % CHUNK,
                "end": path.end,
            }
            for path in request_paths(group)
        ]
    }
