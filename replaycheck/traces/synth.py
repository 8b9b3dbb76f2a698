"""Build groups from specs: fixed turns, turns whose prompt must end at a given position, and sampled answers.

A group asks for the answers whose prompts are known, is given them in any order, and asks for the next ones, so that
whoever samples can batch over branches and groups. A path's positions depend on how long earlier answers came out;
``prompt_ends_at`` therefore cuts or pads its text when the turn is made.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import cycle

from replaycheck.errors import InternalError
from replaycheck.schema.trace import TRACE_SCHEMA, Group, Sampled, Trace, Turn
from replaycheck.traces.checks import check_group
from replaycheck.traces.specs import Answer, Derived, GroupSpec, Node, Say, TraceSpec
from replaycheck.traces.vocabulary import ASSISTANT, BOS, NAME, TEXT_SIZE, decode, turn_tokens

__all__ = ["Answer", "Ask", "GroupBuild", "GroupSpec", "Origin", "Say", "TraceSpec"]


@dataclass(frozen=True)
class Origin:
    """What is recorded about answers: digest of the model's config and weights, seed of the suite, temperature."""

    model: str
    seed: int
    temperature: float


@dataclass(frozen=True)
class Ask:
    """An answer that can be sampled now.

    Attributes:
        tokens: the prompt, and the tokens that a fork begins with. limit, least: how many more to sample.
        continued: something follows this answer. shared: other answers begin with these tokens.
    """

    trace: str
    turn: str
    tokens: tuple[int, ...]
    limit: int
    least: int
    seed: int
    continued: bool
    shared: bool


class GroupBuild:
    """A group on its way from its spec."""

    def __init__(self, spec: GroupSpec, origin: Origin) -> None:
        self.spec = spec
        self._origin = origin
        self._made: dict[tuple[str, str], Turn] = {}
        #: tokens of the path up to and including a turn
        self._paths: dict[tuple[str, str | None], list[int]] = {(trace.id, None): [BOS] for trace in spec.traces}
        self._waiting: list[tuple[str, Node]] = [(trace.id, turn) for trace in spec.traces for turn in trace.turns]
        parents = [(trace, turn.parent) for trace, turn in self._waiting]
        answered = Counter((trace, turn.parent) for trace, turn in self._waiting if isinstance(turn, Answer))
        self._continued = set(parents)
        self._shared = {each for each, count in answered.items() if count > 1}

    def asks(self) -> list[Ask]:
        """Make every turn that can be made, and return the answers that can be sampled now, each once."""
        found: list[Ask] = []
        while ready := [each for each in self._waiting if self._is_ready(*each)]:
            taken = {(trace, node.id) for trace, node in ready}
            self._waiting = [(trace, node) for trace, node in self._waiting if (trace, node.id) not in taken]
            for trace, node in ready:
                if isinstance(node, Answer) and node.limit > self._opening(node):
                    found.append(self._ask(trace, node))
                else:
                    self._put(trace, self._make(trace, node))
        return found

    def give(self, ask: Ask, content: list[int]) -> None:
        """The answer to an ask. One that breaks the contract is an :class:`InternalError`."""
        texts = all(0 <= token < TEXT_SIZE for token in content)
        if not ask.least <= len(content) <= ask.limit or not texts:
            raise InternalError(
                f"the sampler gave {len(content)} tokens for answer {ask.turn!r}; allowed are {ask.least} to "
                f"{ask.limit}, each a text token below {TEXT_SIZE}, without END"
            )
        node = self._node(ask.trace, ask.turn)
        prompt = len(self._paths[ask.trace, node.parent]) + 1
        self._put(ask.trace, self._answer(ask.trace, node, [*ask.tokens[prompt:], *content]))

    def group(self) -> Group:
        """The group, checked, when every answer was given. A spec that breaks its contract is an :class:`InternalError`."""
        spec = self.spec
        if self._waiting:
            waiting = ", ".join(turn.id for _, turn in self._waiting[:3])
            raise InternalError(f"the spec of group {spec.group!r} leaves turns unmade: {waiting}")
        traces = tuple(self._trace(trace) for trace in spec.traces)
        group = Group(
            schema=TRACE_SCHEMA,
            group=spec.group,
            archetype=spec.archetype,
            vocabulary=NAME,
            traces=traces,
            requests=spec.requests,
        )
        group = spec.finish(group, self._origin.seed) if spec.finish else group
        for problem in check_group(group):
            raise InternalError(f"the spec of group {spec.group!r} is wrong: {problem}")
        return group

    def _trace(self, spec: TraceSpec) -> Trace:
        turns = tuple(self._made[spec.id, turn.id] for turn in spec.turns)
        return Trace(id=spec.id, turns=turns, events=spec.events, cluster=spec.cluster)

    def _is_ready(self, trace: str, node: Node) -> bool:
        needed = [(trace, node.parent)]
        if isinstance(node, Derived):
            needed.append(node.source)
        elif isinstance(node, Answer) and node.fork:
            needed.append((trace, node.fork[0]))
        return all(each in self._paths for each in needed)

    def _opening(self, node: Answer) -> int:
        """Tokens that an answer has from another one."""
        return node.fork[1] if node.fork else 0

    def _ask(self, trace: str, node: Answer) -> Ask:
        opening = self._opening(node)
        return Ask(
            trace=trace,
            turn=node.id,
            tokens=(*self._paths[trace, node.parent], ASSISTANT, *self._begun(trace, node)),
            limit=node.limit - opening,
            least=max(node.least - opening, 0),
            seed=self._seed(trace, node),
            continued=(trace, node.id) in self._continued,
            shared=(trace, node.parent) in self._shared,
        )

    def _begun(self, trace: str, node: Answer) -> tuple[int, ...]:
        if node.fork is None:
            return ()
        source, count = node.fork
        content = self._made[trace, source].tokens[1:-1]
        if len(content) < count:
            raise InternalError(f"answer {node.id!r} forks after {count} tokens, but {source!r} has {len(content)}")
        return content[:count]

    def _make(self, trace: str, node: Node) -> Turn:
        """A turn that needs no sampling."""
        if isinstance(node, Say):
            return _say(node, len(self._paths[trace, node.parent]))
        if isinstance(node, Answer):
            return self._answer(trace, node, list(self._begun(trace, node))[: node.limit])
        text = node.make(self._made[node.source].text)
        tokens = tuple(turn_tokens(node.role, text))
        return Turn(id=node.id, parent=node.parent, role=node.role, text=text, tokens=tokens)

    def _answer(self, trace: str, node: Answer, content: list[int]) -> Turn:
        text, origin = decode(content), self._origin
        return Turn(
            id=node.id,
            parent=node.parent,
            role="assistant",
            text=text,
            tokens=tuple(turn_tokens("assistant", text)),
            sampled=Sampled(
                model=origin.model,
                seed=self._seed(trace, node),
                temperature=origin.temperature,
                limit=node.limit,
                least=node.least,
            ),
        )

    def _seed(self, trace: str, node: Answer) -> int:
        return answer_seed(self._origin.seed, self.spec.group, trace, node.id)

    def _put(self, trace: str, turn: Turn) -> None:
        self._made[trace, turn.id] = turn
        self._paths[trace, turn.id] = [*self._paths[trace, turn.parent], *turn.tokens]

    def _node(self, trace: str, turn: str) -> Answer:
        for spec in self.spec.traces:
            for node in spec.turns:
                if (spec.id, node.id) == (trace, turn) and isinstance(node, Answer):
                    return node
        raise InternalError(f"{turn!r} is no answer of group {self.spec.group!r}")


def _say(turn: Say, start: int) -> Turn:
    text = turn.text
    if turn.prompt_ends_at is not None:
        # Beside its text the turn has a role token and END, and the prompt ends with the answer's role token.
        length = turn.prompt_ends_at - start - 3
        if length < 1:
            raise InternalError(
                f"turn {turn.id!r} can't end its prompt at {turn.prompt_ends_at}: {start} tokens lie before it; "
                "shorten the answers before it or move the target"
            )
        text = fitted(text, turn.padding, length)
    return Turn(id=turn.id, parent=turn.parent, role=turn.role, text=text, tokens=tuple(turn_tokens(turn.role, text)))


def fitted(text: str, padding: str, length: int) -> str:
    """``text`` of exactly ``length`` characters: cut, or continued with ``padding`` as often as it takes."""
    pieces = [text]
    # A text never ends in a blank, which would be easy to lose when it is copied.
    if len(text) < length:
        for piece in cycle([" " + (padding or text)]):
            pieces.append(piece)
            if sum(map(len, pieces)) >= length:
                break
    cut = "".join(pieces)[:length]
    return cut[:-1] + "." if cut[-1].isspace() else cut


def answer_seed(seed: int, *names: str) -> int:
    """A seed of 32 bits for one answer, so that each can be sampled again by itself."""
    text = "\n".join([str(seed), *names])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=4).digest(), "big")
