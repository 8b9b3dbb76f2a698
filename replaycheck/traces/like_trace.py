"""One trace drawn request by request from pools: first as a tree of lengths, then as turns with texts.

A request may go on from the middle of a turn; the turn is then split, as an importer of real prompts splits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from replaycheck.schema.trace import Role, Trace, Turn
from replaycheck.traces.pools import Pools
from replaycheck.traces.relations import Kind, Relation
from replaycheck.traces.suites.draw import Draw
from replaycheck.traces.suites.voice import Voice
from replaycheck.traces.vocabulary import turn_tokens

__all__ = ["draw_trace"]

#: A turn's role token and END.
_MARKERS = 2

#: Draws of a request until one is found whose past the trace has; a return needs a branch that was left.
_TRIES = 32

_KINDS: dict[Role, str] = {"system": "guide", "user": "chat", "tool": "result", "assistant": "document"}


@dataclass(eq=False)
class _Node:
    """A turn to be. length: its tokens, markers included."""

    role: Role
    length: int
    parent: _Node | None
    children: list[_Node] = field(default_factory=list)
    name: str = ""

    def path(self) -> list[_Node]:
        """From the root to this node."""
        found, node = [self], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    @property
    def end(self) -> int:
        """Tokens of the path; BOS is the first."""
        return 1 + sum(node.length for node in self.path())


@dataclass
class _Tree:
    """roots: turns without a parent. answers: of each request so far."""

    scale: float
    roots: list[_Node] = field(default_factory=list)
    answers: list[_Node] = field(default_factory=list)

    def scaled(self, tokens: int) -> int:
        return round(tokens * self.scale)

    def add(self, role: Role, length: int, parent: _Node | None) -> _Node:
        node = _Node(role, max(length, _MARKERS), parent)
        (parent.children if parent else self.roots).append(node)
        return node

    def answer(self, parent: _Node, output: int) -> None:
        self.answers.append(self.add("assistant", self.scaled(output) + _MARKERS, parent))

    def cut(self, last: _Node, wanted: int) -> _Node | None:
        """The node that ends after about so many tokens of a path; None at the root. Answers aren't split."""
        end = 1
        for node in last.path():
            start, end = end, end + node.length
            if wanted < end:
                if node.role != "assistant" and start + _MARKERS <= wanted <= end - _MARKERS:
                    return self._split(node, wanted - start)
                return node.parent if wanted - start < end - wanted else node
        return last

    def _split(self, node: _Node, length: int) -> _Node:
        """What lies behind the first tokens of a turn becomes a turn of its own, with all that follows."""
        rest = _Node(node.role, node.length - length, node, node.children)
        for child in rest.children:
            child.parent = rest
        node.length, node.children = length, [rest]
        return node


def draw_trace(name: str, pools: Pools, draw: Draw, voice: Voice, scale: float) -> tuple[Trace, list[str]]:
    """A trace, and the answers that are asked for in order."""
    tree = _Tree(scale)
    _first(tree, draw.pick(pools.firsts.items))
    for _ in range(draw.pick(pools.turns.items) - 1):
        _step(tree, pools, draw)
    turns = tuple(_turns(tree, voice))
    return Trace(id=name, turns=turns), [answer.name for answer in tree.answers]


def _first(tree: _Tree, first: Relation) -> None:
    system = tree.add("system", tree.scaled(first.static) - 1, None) if first.static else None
    # The prompt ends with the answer's role token.
    length = tree.scaled(first.prompt) - 1 - (system.end if system else 1)
    tree.answer(tree.add("user", length, system), first.output)


def _step(tree: _Tree, pools: Pools, draw: Draw) -> None:
    for _ in range(_TRIES):
        step = draw.pick(pools.steps.items)
        source = _source(tree, step)
        if source is not None:
            return _make(tree, step, source)
    return _make(tree, step, tree.answers[-1])


def _source(tree: _Tree, step: Relation) -> _Node | None:
    """The answer that a drawn request goes on from, or beside; None if the trace has none that fits."""
    back, count = step.own_back or 1, len(tree.answers)
    if step.kind is not Kind.RETURN:
        return tree.answers[count - back] if back <= count else None
    current = set(map(id, tree.answers[-1].path()))
    left = [index for index, answer in enumerate(tree.answers) if id(answer) not in current]
    # Of the branches that were left, the one that lies about as far back.
    best = min(left, key=lambda index: abs(count - index - back), default=None)
    return None if best is None else tree.answers[best]


def _make(tree: _Tree, step: Relation, source: _Node) -> None:
    prompt = source.parent
    if step.kind is Kind.AGAIN or prompt is None:
        tree.answers.append(source)
    elif step.kind is Kind.REGENERATE:
        tree.answer(prompt, step.output)
    else:
        kept = source if step.whole else tree.cut(prompt, _wanted(step, prompt))
        role: Role = "tool" if step.tool else "user"
        tree.answer(tree.add(role, tree.scaled(step.new) - 1, kept), step.output)


def _wanted(step: Relation, prompt: _Node) -> int:
    """Tokens of a prompt that are kept; of one that loses some, a shortest turn is lost at any scale."""
    wanted = round(step.kept * (prompt.end + 1))
    return min(wanted, prompt.end - _MARKERS) if step.kind in (Kind.TRIM, Kind.PULL_BACK) else wanted


def _turns(tree: _Tree, voice: Voice) -> Iterator[Turn]:
    """Parents first, and what was there first before what branched off later."""
    stack = tree.roots[::-1]
    number = 0
    while stack:
        node = stack.pop()
        node.name, number = f"{node.role[0]}{number}", number + 1
        text = voice.say(_KINDS[node.role], node.length - _MARKERS)
        tokens = tuple(turn_tokens(node.role, text))
        parent = node.parent.name if node.parent else None
        yield Turn(id=node.name, parent=parent, role=node.role, text=text, tokens=tokens)
        stack.extend(node.children[::-1])
