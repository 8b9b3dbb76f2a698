"""Traces in the terminal: the tree of a group with lengths, branches, prompts' ends on the grid, and what happens where.

Text of a trace comes from outside: everything is printed through :func:`replaycheck.text.shorten`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from replaycheck.schema.arm import CHUNK
from replaycheck.schema.trace import (
    AbortedLoad,
    BatchMates,
    Branch,
    Event,
    Fork,
    Group,
    Offload,
    Preemption,
    Rewind,
    Speculation,
    Trace,
    Turn,
)
from replaycheck.text import printable, shorten
from replaycheck.traces.describe import summaries
from replaycheck.traces.tree import TokenPath, TraceTree, request_paths

__all__ = ["SHOWN", "describe_group"]

T = TypeVar("T")

#: Turns of a tree, and requests, that are shown; of longer ones the middle is left out.
SHOWN = 60

#: Columns for a turn's text; with the rest of its line this fits 100 columns for a tree without forks.
_TEXT = 40

#: Windows and batch mates that are listed.
_LISTED = 12


def describe_group(group: Group, shown: int | None = SHOWN) -> Iterator[str]:
    """The lines of ``trace show`` for one group. shown: turns of a tree and requests at most; None: all."""
    (size,) = summaries([group])
    yield (
        f"{group.group}  {printable(group.archetype)}  vocabulary {printable(group.vocabulary)}  "
        f"{size.tokens} tokens  {size.requests} requests"
    )
    asked = Counter((request.trace, request.turn) for request in group.requests)
    for trace in group.traces:
        yield from _describe_trace(trace, asked, shown)
    yield "  requests in order"
    requests = list(enumerate(request_paths(group), 1))
    for item in _ends(requests, shown):
        yield f"    {item[0]:3d}  {_request(item[1])}" if item else f"    …  {len(requests) - (shown or 0)} more"


def _ends(items: Sequence[T], shown: int | None) -> Iterator[T | None]:
    """All items, or the first two thirds and the last third of those that are shown, with None between them."""
    if shown is None or len(items) <= shown:
        yield from items
        return
    last = shown // 3
    yield from items[: shown - last]
    yield None
    yield from items[len(items) - last :]


def _request(path: TokenPath) -> str:
    place = f"{path.trace}/{path.turn}  branch {path.branch}"
    return f"{place}  prompt {path.prompt} = {_on_grid(path.prompt)}  answer {len(path.answer)}"


def _on_grid(tokens: int) -> str:
    return f"{tokens // CHUNK}·{CHUNK} + {tokens % CHUNK}"


def _describe_trace(trace: Trace, asked: Mapping[tuple[str, str], int], shown: int | None) -> Iterator[str]:
    tree = TraceTree(trace)
    cluster = f"  cluster {trace.cluster}" if trace.cluster else ""
    branches = max(tree.branches.values()) + 1
    yield f"  trace {trace.id}  {branches} branch{'es' if branches > 1 else ''}{cluster}"
    events: dict[str, list[Event]] = {}
    for event in trace.events:
        events.setdefault(event.turn, []).append(event)
    drawn = list(_drawn(tree))
    for item in _ends(drawn, shown):
        if item is None:
            yield f"    …  {len(drawn) - (shown or 0)} more turns; --all shows them"
            continue
        turn, lead, rest = item
        yield _turn_line(tree, turn, lead)
        for text in _marks(events.get(turn.id, []), asked[trace.id, turn.id]):
            yield f"    {rest}  ↳ {text}"


def _drawn(tree: TraceTree) -> Iterator[tuple[Turn, str, str]]:
    """Each turn with the lines that lead to it and those that go on below it; only forks indent, so a long conversation
    stays flat.

    Without recursion: a conversation may have more turns than Python has stack frames.
    """
    stack = _below(tree, None, "")
    while stack:
        name, lead, rest = stack.pop()
        yield tree.turns[name], lead, rest
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
    ends = f"  prompt {start + 1} = {_on_grid(start + 1)}" if turn.role == "assistant" else ""
    return f"    {lead}{turn.id} {turn.role}  branch {tree.branches[turn.id]}  {place}{ends}  {text}"


def _marks(events: Sequence[Event], asked: int) -> Iterator[str]:
    """What happens at a turn, in words; windows of speculation in one line."""
    if asked > 1:
        yield f"asked {asked} times"
    windows = [event for event in events if isinstance(event, Speculation)]
    if windows:
        yield _windows(windows)
    yield from (_mark(event) for event in events if not isinstance(event, Speculation))


def _windows(windows: Sequence[Speculation]) -> str:
    counts = [f"{window.accepted}/{len(window.drafts)}" for window in windows]
    accepted, drafted = sum(window.accepted for window in windows), sum(len(window.drafts) for window in windows)
    more = " …" if len(counts) > _LISTED else ""
    return f"{len(counts)} windows, {accepted} of {drafted} drafts accepted: {' '.join(counts[:_LISTED])}{more}"


def _mark(event: Event) -> str:
    match event:
        case Branch():
            return "goes on in more than one way"
        case Rewind():
            return f"the client went back to {event.to}"
        case Preemption():
            how = "swapped out and in" if event.resume == "swap" else "computed again"
            return f"preempted after {event.after} tokens, {how}"
        case BatchMates():
            more = f" and {len(event.mates) - _LISTED} more" if len(event.mates) > _LISTED else ""
            return f"in one batch with {', '.join(event.mates[:_LISTED])}{more}"
        case Fork():
            return f"forks from {event.source} after {event.offset} tokens"
        case Offload():
            return "its states move to the host afterwards"
        case AbortedLoad():
            return "the load of its state from the host is aborted"
        case Speculation():
            return _windows([event])
