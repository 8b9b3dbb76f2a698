"""What a schema can't say about a group: references, order, and token ids that mean what the text says.

Everything here is reported as a :class:`Problem` with the field; nothing raises, so that a validator can list all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from replaycheck.errors import UsageError, choices
from replaycheck.schema.problems import Problem
from replaycheck.schema.trace import (
    AbortedLoad,
    BatchMates,
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
from replaycheck.traces import vocabulary

__all__ = ["check_group"]

#: Vocabularies whose ids can be checked, with their sizes.
VOCABULARIES: Mapping[str, int] = {vocabulary.NAME: vocabulary.SIZE}

# An error lists at most this many of the names that would have been right.
_LISTED = 8

#: Events that are about an answer.
_OF_ANSWERS = (Speculation, Preemption, BatchMates, Fork, Offload, AbortedLoad)


def check_group(group: Group) -> Iterator[Problem]:
    """Every problem of ``group``, in the order of its line."""
    if group.vocabulary not in VOCABULARIES:
        yield Problem(
            "vocabulary",
            f"{group.vocabulary!r} is unknown; known: {choices(VOCABULARIES)}; write the token ids in one of these",
        )
        return
    yield from _repeats("traces", "trace", [trace.id for trace in group.traces])
    for index, trace in enumerate(group.traces):
        yield from _check_trace(f"traces[{index}]", trace)
    answers = {trace.id: _answers(trace) for trace in group.traces}
    for index, trace in enumerate(group.traces):
        yield from _check_events(f"traces[{index}].events", trace, set().union(*answers.values()))
    yield from _check_requests(group, answers)


def _answers(trace: Trace) -> set[str]:
    return {turn.id for turn in trace.turns if turn.role == "assistant"}


def _repeats(field: str, kind: str, names: Sequence[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield Problem(
                f"{field}[{index}].id",
                f"{name!r} is the {kind} {field}[{first[name]}], too; give each {kind} an id of its own",
            )
        first.setdefault(name, index)


def _check_trace(field: str, trace: Trace) -> Iterator[Problem]:
    names = [turn.id for turn in trace.turns]
    yield from _repeats(f"{field}.turns", "turn", names)
    seen: set[str] = set()
    for index, turn in enumerate(trace.turns):
        at = f"{field}.turns[{index}]"
        yield from _check_parent(at, turn, seen, names)
        yield from _check_tokens(at, turn)
        seen.add(turn.id)


def _check_parent(at: str, turn: Turn, earlier: set[str], names: Sequence[str]) -> Iterator[Problem]:
    if turn.parent is None:
        if turn.role == "assistant":
            yield Problem(
                f"{at}.parent", "null, but an assistant turn answers one; name the turn that this one answers"
            )
    elif turn.parent not in earlier:
        what = "comes later" if turn.parent in names else "is no turn of this trace"
        yield Problem(
            f"{at}.parent",
            f"{turn.parent!r} {what}; a parent is an earlier turn: {_some(earlier)}; put it before this turn",
        )


def _check_tokens(at: str, turn: Turn) -> Iterator[Problem]:
    for index, token in enumerate(turn.tokens):
        if not 0 <= token < vocabulary.SIZE:
            yield Problem(
                f"{at}.tokens[{index}]",
                f"{token} is outside the vocabulary {vocabulary.NAME!r}, whose ids are 0 to {vocabulary.SIZE - 1}; "
                "encode the text with this vocabulary",
            )
            return
    try:
        expected = vocabulary.turn_tokens(turn.role, turn.text)
    except UsageError as error:
        yield Problem(f"{at}.text", str(error))
        return
    if list(turn.tokens) != expected:
        yield _mismatch(at, turn.tokens, expected)


def _mismatch(at: str, given: Sequence[int], expected: Sequence[int]) -> Problem:
    """The first place where the ids are not ``[role] + text + [end]``."""
    same = (a == b for a, b in zip(given, expected, strict=False))
    index = next((i for i, equal in enumerate(same) if not equal), min(len(given), len(expected)))
    found = repr(given[index]) if index < len(given) else "the end"
    wanted = repr(expected[index]) if index < len(expected) else "the end"
    return Problem(
        f"{at}.tokens[{index}]",
        f"is {found}, but role and text give {wanted} (a turn is [role] + text + [end], here {len(expected)} tokens); "
        "encode the text again or correct it",
    )


def _check_requests(group: Group, answers: Mapping[str, set[str]]) -> Iterator[Problem]:
    turns = {trace.id: {turn.id for turn in trace.turns} for trace in group.traces}
    for index, request in enumerate(group.requests):
        at = f"requests[{index}]"
        if request.trace not in turns:
            yield Problem(
                f"{at}.trace", f"{request.trace!r} is no trace of this group; there are {_some(turns)}; name one"
            )
        elif request.turn not in turns[request.trace]:
            yield Problem(f"{at}.turn", _no_turn(request.turn, request.trace, answers[request.trace]))
        elif request.turn not in answers[request.trace]:
            yield Problem(
                f"{at}.turn",
                f"{request.turn!r} isn't an assistant turn; a request asks for an answer: "
                f"{_some(answers[request.trace])}; name one of these",
            )


def _no_turn(name: str, trace: str, allowed: Iterable[str]) -> str:
    return f"{name!r} is no turn of trace {trace!r}; allowed: {_some(allowed)}; name one of these"


def _check_events(field: str, trace: Trace, group_answers: set[str]) -> Iterator[Problem]:
    turns = {turn.id: turn for turn in trace.turns}
    for index, event in enumerate(trace.events):
        at = f"{field}[{index}]"
        if event.turn not in turns:
            yield Problem(f"{at}.turn", _no_turn(event.turn, trace.id, turns))
        else:
            yield from _check_event(at, event, turns, group_answers)


def _check_event(at: str, event: Event, turns: Mapping[str, Turn], group_answers: set[str]) -> Iterator[Problem]:
    turn = turns[event.turn]
    if isinstance(event, _OF_ANSWERS) and turn.role != "assistant":
        yield Problem(f"{at}.turn", f"{turn.id!r} has role {turn.role!r}; a {event.kind} event is about an answer")
    elif isinstance(event, Rewind) and event.to not in turns:
        yield Problem(f"{at}.to", f"{event.to!r} is no turn of this trace; allowed: {_some(turns)}; name one of these")
    elif isinstance(event, Speculation):
        yield from _check_window(at, event, turn)
    elif isinstance(event, Fork):
        yield from _check_fork(at, event, turns)
    elif isinstance(event, BatchMates):
        for mate, count in Counter(event.mates).items():
            if mate not in group_answers or count > 1:
                yield Problem(
                    f"{at}.mates",
                    f"{mate!r} is no answer of this group, or named twice; allowed: {_some(group_answers)}",
                )


def _check_fork(at: str, event: Fork, turns: Mapping[str, Turn]) -> Iterator[Problem]:
    turn, source = turns[event.turn], turns.get(event.source)
    siblings = {
        name
        for name, each in turns.items()
        if each.role == "assistant" and each.parent == turn.parent and each is not turn
    }
    if source is None or event.source not in siblings:
        yield Problem(
            f"{at}.source",
            f"{event.source!r} is no other answer to the same turn; allowed: {_some(siblings)}; name one",
        )
        return
    shared = event.offset + 1
    if min(len(turn.tokens), len(source.tokens)) <= shared or turn.tokens[:shared] != source.tokens[:shared]:
        yield Problem(
            f"{at}.offset",
            f"{event.offset}: {turn.id!r} and {source.id!r} don't share so many tokens with at least one left; "
            "fork where they part or sooner",
        )


def _check_window(at: str, event: Speculation, turn: Turn) -> Iterator[Problem]:
    length = len(turn.tokens) - 1
    if event.accepted > len(event.drafts):
        yield Problem(
            f"{at}.accepted", f"{event.accepted} of {len(event.drafts)} drafts; accept no more than were drafted"
        )
    if event.offset + event.accepted > length:
        yield Problem(
            f"{at}.offset",
            f"{event.offset} + {event.accepted} accepted is past the answer's {length} tokens; start the window sooner",
        )
    for index, token in enumerate(event.drafts):
        if not 0 <= token < vocabulary.SIZE:
            yield Problem(
                f"{at}.drafts[{index}]", f"{token} is outside the vocabulary, whose ids are 0 to {vocabulary.SIZE - 1}"
            )


def _some(names: Iterable[str]) -> str:
    """Some of the names that are allowed, for an error text."""
    listed = sorted(names)
    if not listed:
        return "none"
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(map(repr, listed[:_LISTED])) + more
