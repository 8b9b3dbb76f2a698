"""From a draft to a group of the trace schema: names, lengths, token ids, events, and where it comes from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from replaycheck.errors import InternalError, UsageError
from replaycheck.schema.trace import TRACE_SCHEMA, Branch, Event, Group, Request, Rewind, Source, Trace, Turn
from replaycheck.traces.checks import check_group
from replaycheck.traces.drift import drifts
from replaycheck.traces.read import MAX_LINE
from replaycheck.traces.vocabulary import NAME, turn_tokens

from .api import Context
from .draft import Ask, DraftGroup, DraftTrace
from .fit import Fitted, fit, needed
from .words import Words, made

__all__ = ["MAX_GROUP", "finish", "identifier"]

_LETTERS = {"system": "s", "user": "u", "assistant": "a", "tool": "t"}
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
#: Tokens of a group: each takes up to five bytes of its line (an id, a comma, a character), which has at most 64 MiB.
MAX_GROUP = MAX_LINE // 5

#: Characters of an identifier; of a name from outside in it.
_LONGEST, _NAME = 64, 48


def finish(draft: DraftGroup, name: str, importer: str, context: Context) -> Group | None:
    """The group, or None if nothing was asked for in it.

    Args:
        name: of the group, an identifier.
        importer: name of the format.
    """
    options, log = context.options, context.log
    if not draft.asks:
        log.drop("conversation without an answer")
        return None
    fitted = fit(draft, options.scale, options.max_tokens, log)
    if not fitted.asks:
        return None
    turns = needed(draft, fitted.asks)
    _refuse_huge(draft, turns, fitted)
    for trace, used in turns.items():
        log.drop("turn that leads to no answer", len(draft.traces[trace].turns) - len(used))
    names = _trace_names(name, turns, options.anonymise)
    ids = {trace: _turn_ids(draft.traces[trace], used) for trace, used in turns.items()}
    group = Group(
        schema=TRACE_SCHEMA,
        group=name,
        archetype=f"imported-{importer}",
        vocabulary=NAME,
        traces=tuple(
            Trace(
                id=names[trace],
                turns=tuple(_turns(draft, trace, ids[trace], fitted, context)),
                events=tuple(_events(draft.traces[trace], ids[trace], [a for a in fitted.asks if a.trace == trace])),
            )
            for trace in turns
        ),
        requests=tuple(Request(trace=names[ask.trace], turn=ids[ask.trace][ask.turn]) for ask in fitted.asks),
        source=_source(draft, importer, fitted.scale, turns, options.anonymise),
    )
    for problem in check_group(group):
        raise InternalError(f"importer {importer!r} made a group that isn't valid: {problem}")
    return group


def _refuse_huge(draft: DraftGroup, turns: Mapping[str, Sequence[int]], fitted: Fitted) -> None:
    """Before memory is taken: lengths come from outside."""
    traces = [(draft.traces[trace], used) for trace, used in turns.items()]
    tokens = sum(fitted.length(trace.turns[turn].words.length) + 2 for trace, used in traces for turn in used)
    if tokens > MAX_GROUP:
        raise UsageError(
            f"{draft.source.path}: {draft.name[:40]!r} has {tokens} tokens; a group has at most {MAX_GROUP}; "
            "use --scale, --max-tokens or a smaller --group-size"
        )


def identifier(text: str, fallback: str) -> str:
    """``text`` as an identifier of at most 48 characters.

    >>> identifier("claude:92ee/b x", "t1")
    'claude-92ee-b-x'
    """
    return _OTHER.sub("-", text).strip("-._")[:_NAME] or fallback


def _trace_names(group: str, traces: Collection[str], anonymise: bool) -> Mapping[str, str]:
    """Names that no other group of the import has: a run wants each trace to have its own."""
    if len(traces) == 1:
        return dict.fromkeys(traces, group)
    names: dict[str, str] = {}
    for number, trace in enumerate(traces, 1):
        name = f"{group}-{identifier('' if anonymise else trace, f't{number}')}"[:_LONGEST].rstrip("-._")
        names[trace] = f"{name[: _LONGEST - 8]}-t{number}" if name in names.values() else name
    return names


def _turn_ids(trace: DraftTrace, used: Sequence[int]) -> Mapping[int, str]:
    """u1, a1, u2, a2 … in file order."""
    counts: Counter[str] = Counter()
    ids = {}
    for turn in used:
        letter = _LETTERS[trace.turns[turn].role]
        counts[letter] += 1
        ids[turn] = f"{letter}{counts[letter]}"
    return ids


def _turns(draft: DraftGroup, name: str, ids: Mapping[int, str], fitted: Fitted, context: Context) -> Iterable[Turn]:
    trace, log = draft.traces[name], context.log
    for number, id_ in ids.items():
        turn = trace.turns[number]
        words = _hidden(turn.words, draft, name, number) if context.options.anonymise else turn.words
        text = words.first(fitted.length(words.length))
        tokens = turn_tokens(turn.role, text)
        log.checked += 1
        log.drifted += drifts(tokens)
        parent = None if turn.parent is None else ids[turn.parent]
        yield Turn(id=id_, parent=parent, role=turn.role, text=text, tokens=tuple(tokens))


def _hidden(words: Words, draft: DraftGroup, trace: str, number: int) -> Words:
    """As many characters, made from the place of the turn: nothing of its words can be found by trying."""
    return made(words.length, draft.source.sha256, draft.name, trace, number) if words.private else words


def _events(trace: DraftTrace, ids: Mapping[int, str], asks: Sequence[Ask]) -> Iterable[Event]:
    children = Counter(trace.turns[turn].parent for turn in ids)
    yield from (Branch(kind="branch", turn=ids[turn]) for turn in ids if children[turn] > 1)
    yield from (
        Rewind(kind="rewind", turn=ids[answer], to=ids[turn])
        for answer, turn in (_rewinds(trace, asks) if trace.rewinds is None else trace.rewinds)
        if answer in ids and turn in ids
    )


def _rewinds(trace: DraftTrace, asks: Sequence[Ask]) -> Iterable[tuple[int, int]]:
    """Requests that go on neither from the previous answer nor from its prompt."""
    for before, after in pairwise(asks):
        shared = trace.common(before.turn, after.turn)
        if shared is not None and shared not in (before.turn, trace.turns[before.turn].parent):
            yield before.turn, shared


def _source(
    draft: DraftGroup, importer: str, scale: float, turns: Mapping[str, Sequence[int]], anonymise: bool
) -> Source:
    private = any(draft.traces[trace].turns[turn].words.private for trace, used in turns.items() for turn in used)
    return Source(
        format=importer,
        sha256=draft.source.sha256,
        text="private" if private and not anonymise else "generated",
        scale=scale,
        anonymised=anonymise,
    )
