"""Prompts that are known by block ids or lengths only, as a tree of turns with exact lengths.

A prompt is a list of spans: characters ``start`` to ``stop`` of what a key stands for. Keys are block ids in the format's
scope, or (session, turn) for what has no id. The prompts of a trace form a radix tree; each edge becomes one turn. A turn
has two tokens of its own (role and END), a path one (BOS) and a prompt one more (the answer's role token); they take the
place of the characters there, so that equal ids give equal tokens at equal positions and lengths stay the source's.

Two prompts can't be as long as the source says: one that ends where another goes on is a token longer (the answer's role
token), and a last piece of two tokens is one too long. Both are counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from replaycheck.schema.trace import Role

from .draft import DraftGroup, DraftTrace
from .log import Log
from .words import Words, joined, made_text

__all__ = ["Call", "Span", "block_spans", "grow", "turn_words"]

#: Tokens of a turn that aren't characters: role and END. The first turn of a path stands after BOS.
_OWN = 2
_BOS = 1


class Span(NamedTuple):
    """Tokens ``start`` to ``stop`` of ``key``."""

    key: Hashable
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Call:
    """One request. ``blocks`` counts the spans at its start that later prompts can share: all but an unhashed tail."""

    spans: tuple[Span, ...]
    blocks: int
    out: int
    role: Role
    session: str
    number: int
    time: float | None = None
    #: what the answer's tokens are; made ones if it isn't known
    answer: tuple[Span, ...] = ()

    def answer_words(self) -> Words:
        """The characters of the answer; its END is one of its tokens."""
        spans = self.answer or (Span((self.session, self.number, "answer"), 0, self.out),)
        return _part(spans, 0, max(0, self.out - 1))


@dataclass(slots=True)
class _Node:
    """The prompts that share what led here, atom by atom."""

    children: dict[Span, _Node] = field(default_factory=dict)
    role: Role = "user"
    ends: bool = False
    turn: int | None = None


def block_spans(ids: Sequence[int], length: int, block: int, scope: str) -> list[Span]:
    """The spans of ``ids`` in blocks of ``block`` tokens; the last one ends with the prompt if that ends inside it."""
    full = [(index * block, name) for index, name in enumerate(ids)]
    return [Span((scope, name), 0, min(block, length - start)) for start, name in full if length > start]


def grow(group: DraftGroup, trace: DraftTrace, calls: Sequence[Call], log: Log, ask: bool = True) -> list[int]:
    """Add the prompts of ``calls`` and their answers to ``trace``, and ask for each. Returns the answers."""
    cuts = _cuts(call.spans for call in calls)
    paths = [_atoms(call.spans, cuts) for call in calls]
    root = _Node()
    ends = [_insert(root, path, call.role) for path, call in zip(paths, calls, strict=True)]
    _make_turns(trace, root, log)
    previous: dict[str, tuple[Call, int]] = {}
    answers = []
    trace.rewinds = trace.rewinds or []
    for call, end in zip(calls, ends, strict=True):
        answer = trace.add(end.turn, "assistant", call.answer_words())
        if call.out == 0:
            log.note("answer of 0 tokens, kept as an empty turn: its END is scored")
        answers.append(answer)
        if ask:
            group.ask(trace, answer, call.time)
        if call.session in previous:
            _rewind(trace, previous[call.session], answer, call, log)
        previous[call.session] = call, answer
    return answers


def _cuts(prompts: Iterable[Sequence[Span]]) -> dict[Hashable, list[int]]:
    """Where the keys that are used in part are cut, so that equal parts are equal atoms."""
    cuts: dict[Hashable, set[int]] = {}
    for spans in prompts:
        for span in spans:
            cuts.setdefault(span.key, set()).update((span.start, span.stop))
    return {key: sorted(places) for key, places in cuts.items()}


def _atoms(spans: Sequence[Span], cuts: dict[Hashable, list[int]]) -> list[Span]:
    atoms = []
    for span in spans:
        places = [place for place in cuts[span.key] if span.start <= place <= span.stop]
        atoms += [Span(span.key, a, b) for a, b in pairwise(places)]
    return atoms


def _insert(root: _Node, atoms: Sequence[Span], role: Role) -> _Node:
    node = root
    for atom in atoms:
        if atom not in node.children:
            node.children[atom] = _Node(role=role)
        node = node.children[atom]
    node.ends = True
    return node


def _make_turns(trace: DraftTrace, root: _Node, log: Log) -> None:
    """One turn an edge of the radix tree, parents first."""
    waiting: list[tuple[_Node, int | None, _Node, list[Span]]] = [
        (child, None, child, [atom]) for atom, child in reversed(root.children.items())
    ]
    while waiting:
        first, parent, node, atoms = waiting.pop()
        while len(node.children) == 1 and not node.ends:
            ((atom, node),) = node.children.items()
            atoms.append(atom)
        carried: list[Span] = []
        if _too_short(atoms, parent, node):
            node.turn, carried = parent, atoms
        else:
            node.turn = trace.add(parent, first.role, _turn_words(atoms, parent is None, node, log))
        waiting += [(child, node.turn, child, [*carried, atom]) for atom, child in reversed(node.children.items())]


def _too_short(atoms: Sequence[Span], parent: int | None, node: _Node) -> bool:
    """A piece that has no room for a turn's own tokens goes to what follows it; a prompt that ends there ends before it."""
    length = sum(atom.length for atom in atoms)
    return length < _OWN if parent is not None else length < _OWN + _BOS and not node.ends


def _turn_words(atoms: Sequence[Span], at_root: bool, node: _Node, log: Log) -> Words:
    tokens = sum(atom.length for atom in atoms)
    # The answer's role token is the last one of the prompt; where another prompt goes on, it comes after.
    if node.ends and not node.children:
        tokens -= 1
    elif node.ends:
        log.note("prompt is one token longer than in the source: another one goes on where it ends")
    return turn_words(atoms, tokens, at_root, log)


def turn_words(atoms: Sequence[Span], tokens: int, at_root: bool, log: Log) -> Words:
    """The characters of a turn of ``tokens`` tokens, between those that are the turn's own."""
    start = _OWN - 1 + (_BOS if at_root else 0)
    stop = tokens - 1
    if stop < start:
        log.note("piece of a prompt is too short for a turn and was made longer", 1)
        stop = start
    return joined([_part(atoms, start, stop)])


def _part(atoms: Sequence[Span], start: int, stop: int) -> Words:
    """Tokens ``start`` to ``stop`` of the atoms in a row."""
    parts, position = [], 0
    for atom in atoms:
        a, b = max(start - position, 0), min(stop - position, atom.length)
        if a < b:
            parts.append(_made(Span(atom.key, atom.start + a, atom.start + b)))
        position += atom.length
    return joined(parts)


def _made(span: Span) -> Words:
    name = "\0".join(map(str, span.key)) if isinstance(span.key, tuple) else str(span.key)
    return Words(span.length, lambda count: made_text(name, span.start, min(span.start + count, span.stop)))


def _rewind(trace: DraftTrace, before: tuple[Call, int], answer: int, call: Call, log: Log) -> None:
    """Note that the client went back: not all blocks of the previous prompt of the session are in this one."""
    last, last_answer = before
    if last.spans[: last.blocks] == call.spans[: last.blocks]:
        return
    turn = trace.common(last_answer, answer)
    if turn is None:
        log.note("prompt shares nothing with the one before it: the session starts anew")
    else:
        log.note("prompt goes back behind the end of the one before it")
        trace.went_back(last_answer, turn)
