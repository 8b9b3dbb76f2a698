"""Build groups from a spec: fixed turns, turns whose prompt must end at a given position, and sampled answers.

The sampler is a callback, so that suites are built by the float64 oracle and tested with a fake. A path's positions
depend on how long earlier answers came out; ``prompt_ends_at`` therefore cuts or pads its text when the group is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

from replaycheck.errors import InternalError
from replaycheck.schema.trace import TRACE_SCHEMA, Event, Group, Request, Role, Sampled, Trace, Turn
from replaycheck.traces.checks import check_group
from replaycheck.traces.vocabulary import ASSISTANT, BOS, NAME, TEXT_SIZE, decode, turn_tokens

__all__ = ["Answer", "GroupSpec", "Sample", "Sampler", "Say", "TraceSpec", "build_group"]

#: ``sample(tokens, limit, seed)``: the content of an answer to the prompt ``tokens``, at most ``limit`` text tokens,
#: without END. The same arguments give the same tokens.
Sample = Callable[[list[int], int, int], list[int]]


@dataclass(frozen=True)
class Sampler:
    """Where answers come from, and what is recorded about that."""

    sample: Sample
    #: digest of the model's config and weights
    model: str
    seed: int
    temperature: float


@dataclass(frozen=True)
class Say:
    """A turn whose text is ours.

    With ``prompt_ends_at = N``, a prompt that ends with this turn has exactly N tokens: BOS, the path, this turn and
    the role token of the answer. ``text`` is then cut, or continued from ``padding``, to fit.
    """

    id: str
    parent: str | None
    role: Role
    text: str
    prompt_ends_at: int | None = None
    padding: str = ""


@dataclass(frozen=True)
class Answer:
    """An assistant turn to be sampled, of at most ``limit`` tokens; 0 is an empty answer."""

    id: str
    parent: str
    limit: int


@dataclass(frozen=True)
class TraceSpec:
    id: str
    turns: tuple[Say | Answer, ...]
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class GroupSpec:
    group: str
    archetype: str
    traces: tuple[TraceSpec, ...]
    requests: tuple[Request, ...]


def build_group(spec: GroupSpec, sampler: Sampler) -> Group:
    """Build and check a group. A spec or a sampler that breaks its contract is an :class:`InternalError`."""
    group = Group(
        schema=TRACE_SCHEMA,
        group=spec.group,
        archetype=spec.archetype,
        vocabulary=NAME,
        traces=tuple(_build_trace(spec.group, trace, sampler) for trace in spec.traces),
        requests=spec.requests,
    )
    for problem in check_group(group):
        raise InternalError(f"the spec of group {spec.group!r} is wrong: {problem}")
    return group


def _build_trace(group: str, spec: TraceSpec, sampler: Sampler) -> Trace:
    #: tokens of the path up to and including a turn
    paths: dict[str | None, list[int]] = {None: [BOS]}
    turns = []
    for turn in spec.turns:
        before = paths[turn.parent]
        if isinstance(turn, Say):
            made = _say(turn, len(before))
        else:
            made = _answer(turn, before, answer_seed(sampler.seed, group, spec.id, turn.id), sampler)
        paths[turn.id] = [*before, *made.tokens]
        turns.append(made)
    return Trace(id=spec.id, turns=tuple(turns), events=spec.events)


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


def _answer(turn: Answer, before: list[int], seed: int, sampler: Sampler) -> Turn:
    content = sampler.sample([*before, ASSISTANT], turn.limit, seed) if turn.limit else []
    if len(content) > turn.limit or not all(0 <= token < TEXT_SIZE for token in content):
        raise InternalError(
            f"the sampler gave {len(content)} tokens for answer {turn.id!r}; allowed are at most {turn.limit}, "
            f"each a text token below {TEXT_SIZE}, without END"
        )
    text = decode(content)
    return Turn(
        id=turn.id,
        parent=turn.parent,
        role="assistant",
        text=text,
        tokens=tuple(turn_tokens("assistant", text)),
        sampled=Sampled(model=sampler.model, seed=seed, temperature=sampler.temperature, limit=turn.limit),
    )


def answer_seed(seed: int, *names: str) -> int:
    """A seed of 32 bits for one answer, so that each can be sampled again by itself."""
    text = "\n".join([str(seed), *names])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=4).digest(), "big")
