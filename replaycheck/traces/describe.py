"""Traces in the terminal: the tree of a group with lengths, branches and prompt positions, and one line a suite.

Text of a trace comes from outside: everything is printed through :func:`replaycheck.text.shorten`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from replaycheck.schema.arm import CHUNK
from replaycheck.schema.trace import Group, Trace, Turn
from replaycheck.text import printable, shorten
from replaycheck.traces.tree import TokenPath, TraceTree, request_paths

__all__ = ["GroupSummary", "describe_group", "group_record", "summaries", "totals"]

# Columns for a turn's text; with the rest of its line this fits 100 columns for a tree without forks.
_TEXT = 48


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


def describe_group(group: Group) -> Iterator[str]:
    """The lines of ``trace show`` for one group."""
    size = _summary(group)
    yield (
        f"{group.group}  {printable(group.archetype)}  vocabulary {printable(group.vocabulary)}  "
        f"{size.tokens} tokens  {size.requests} requests"
    )
    for trace in group.traces:
        yield from _describe_trace(trace)
    yield "  requests in order"
    for number, path in enumerate(request_paths(group), 1):
        yield f"    {number:3d}  {_request(path)}"


def _request(path: TokenPath) -> str:
    return (
        f"{path.trace}/{path.turn}  branch {path.branch}  prompt {path.prompt} "
        f"= {path.prompt // CHUNK}·{CHUNK} + {path.prompt % CHUNK}  answer {len(path.answer)}"
    )


def _describe_trace(trace: Trace) -> Iterator[str]:
    tree = TraceTree(trace)
    cluster = f"  cluster {trace.cluster}" if trace.cluster else ""
    yield f"  trace {trace.id}  {max(tree.branches.values()) + 1} branches{cluster}"
    for turn, lead in _drawn(tree):
        yield _turn_line(tree, turn, lead)
    for event in trace.events:
        details = event.model_dump(exclude={"kind", "turn"})
        shown = "".join(f"  {key} {value}" for key, value in details.items())
        yield f"    event {event.kind}  at {event.turn}{shorten(shown, _TEXT)}"


def _drawn(tree: TraceTree) -> Iterator[tuple[Turn, str]]:
    """Each turn with the lines that lead to it; only forks indent, so a long conversation stays flat.

    Without recursion: a conversation may have more turns than Python has stack frames.
    """
    stack = _below(tree, None, "")
    while stack:
        name, lead, rest = stack.pop()
        yield tree.turns[name], lead
        stack.extend(_below(tree, name, rest))


def _below(tree: TraceTree, parent: str | None, lead: str) -> list[tuple[str, str, str]]:
    """The turns below ``parent``, last first: each with its own lead and the lead of what comes below it."""
    names = tree.children.get(parent, ())
    if len(names) <= 1:
        return [(name, lead, lead) for name in names]
    corners = ["├─"] * (len(names) - 1) + ["└─"]
    bars = ["│ "] * (len(names) - 1) + ["  "]
    siblings = [(name, lead + corner, lead + bar) for name, corner, bar in zip(names, corners, bars, strict=True)]
    return siblings[::-1]


def _turn_line(tree: TraceTree, turn: Turn, lead: str) -> str:
    start = tree.starts[turn.id]
    place = f"{start}..{start + len(turn.tokens)}"
    text = shorten(turn.text, _TEXT) if turn.text else "(empty)"
    return f"    {lead}{turn.id} {turn.role}  branch {tree.branches[turn.id]}  {place}  {text}"
