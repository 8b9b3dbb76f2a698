"""What a plain endpoint answered, read without believing it, and how two answers to one prompt are laid side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from replaycheck.compare.record import ArmRecording, HitSeen, ScoredTurn
from replaycheck.compare.top import Entry, TopLogprobs
from replaycheck.schedule.steps import RequestPlan, Schedule
from replaycheck.schema.arm import Compiler

from .completions import cached_tokens, choice_of
from .completions import number as logprob
from .http import ServerFault

__all__ = ["IDS", "Answer", "Key", "identity", "read", "recording", "shared"]

IDS = 2**31 - 1
"""Ids are 31-bit hashes of texts, the same in any process; that two texts share one has a chance of 1 in 2^30 a pair."""

END = ""
"""Stands where an answer is over and the other one goes on. A token of no text means the same to a reader."""

Key = tuple[str, int, int]
"""Trace, branch and turn."""


@dataclass(frozen=True)
class Answer:
    """One continuation.

    Attributes:
        text: whole. tokens: their texts; without log-probabilities the characters of the text.
        entries: of each token its log-probability and those of the best ones, by :func:`identity`; None: not said.
        prompt: tokens of the prompt by the server's count; None: not said. cached: of these, from its cache.
        numbers: whether log-probabilities came with it.
    """

    text: str
    tokens: tuple[str, ...]
    entries: tuple[Entry | None, ...]
    prompt: int | None
    cached: int | None
    numbers: bool

    def spelled(self) -> Answer:
        """The same without log-probabilities: a character a place."""
        return replace(self, tokens=tuple(self.text), entries=(None,) * len(self.text), numbers=False)

    def token(self, at: int) -> str:
        """The text at a place of the answer."""
        return self.tokens[at] if at < len(self.tokens) else END

    def entry(self, at: int) -> Entry | None:
        """What was said there."""
        return self.entries[at] if at < len(self.entries) else None


def identity(text: str) -> int:
    """The id that stands for a token's text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little") % IDS


def read(answer: Any, new: int, who: str) -> Answer:
    """Read an answer of at most ``new`` tokens. Raises :class:`ServerFault` for what no completion can be."""
    choice = choice_of(answer, who)
    text = choice.get("text")
    if not isinstance(text, str):
        raise ServerFault(f"{who}: the answer has no text; is this a completions endpoint, and not one for chats?")
    usage = answer.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    prompt = counted if isinstance(counted, int) and not isinstance(counted, bool) and counted > 0 else None
    cached = None if prompt is None else cached_tokens(answer, prompt, who)
    said = choice.get("logprobs")
    names = said.get("tokens") if isinstance(said, Mapping) else None
    found = Answer(text, (), (), prompt, cached, numbers=True)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        # An answer that ends at once has nothing to say a number about.
        return found.spelled() if text else found
    if len(names) > new:
        raise ServerFault(f"{who}: at most {new} tokens were asked for, {len(names)} came")
    return replace(found, tokens=tuple(names), entries=tuple(_entries(said, names, who)))


def _entries(said: Any, names: Sequence[str], who: str) -> list[Entry | None]:
    """A number beside an empty list is not believed: engines write 0.0 there for tokens that they didn't score."""
    own, best = said.get("token_logprobs") or [], said.get("top_logprobs") or []
    found: list[Entry | None] = []
    for at, name in enumerate(names):
        top = best[at] if at < len(best) and isinstance(best[at], Mapping) else {}
        listed = {identity(str(text)): value for text, each in top.items() if (value := logprob(each, who)) is not None}
        value = logprob(own[at], who) if at < len(own) else None
        value = listed.get(identity(name)) if value is None else value
        found.append((value, listed | {identity(name): value}) if listed and value is not None else None)
    return found


def shared(first: Answer, other: Answer) -> int:
    """Places of two answers that can be compared: those that are alike, and the first one that isn't."""
    longest = max(len(first.tokens), len(other.tokens))
    for at in range(longest):
        if first.token(at) != other.token(at):
            return at + 1
    return longest


def recording(
    schedule: Schedule, mine: Mapping[Key, Answer], first: Mapping[Key, Answer], arms: Sequence[Mapping[Key, Answer]]
) -> ArmRecording:
    """An arm's answers against the first cold ones, at the places that all arms of the call share with these.

    Args:
        mine: this arm's. first: the cold ones that say which tokens are scored. arms: all that were played together.
    """
    turns, hits = [], []
    warm = schedule.arm.compiler is Compiler.WARM
    for plan in schedule.requests:
        key = (plan.trace, plan.branch, plan.turn)
        if warm:
            hits.append(_hit(plan, mine.get(key), first.get(key)))
        # All arms score the same turns: one that an arm lacks has nothing beside it.
        if all(key in arm for arm in arms):
            answers = [mine[key], first[key], *(arm[key] for arm in arms)]
            if not all(each.numbers for each in answers):
                answers = [each.spelled() for each in answers]
            turns.append(_scored(plan, answers[0], answers[1:], warm))
    return ArmRecording(
        arm=schedule.arm.name,
        turns=tuple(turns),
        restores=(),
        proven_hits=sum(bool(hit.actual) for hit in hits),
        computed_tokens=sum((each.prompt or 0) - (each.cached or 0) for each in mine.values()),
        hits=tuple(hits),
    )


def _hit(plan: RequestPlan, mine: Answer | None, first: Answer | None) -> HitSeen:
    """The hit, and in words whether the text is the cold one: the one thing that can be seen without numbers."""
    if mine is None or first is None:
        return HitSeen(plan.trace, plan.branch, plan.turn, plan.prompt, None, None, "left out: no proven cold answer")
    hit = "not reported by the server" if mine.cached is None else "hit" if mine.cached else "no hit"
    why = f"{hit}; the same text as cold" if mine.text == first.text else f"{hit}; another text than cold"
    return HitSeen(plan.trace, plan.branch, plan.turn, mine.prompt or plan.prompt, None, mine.cached, why)


def _scored(plan: RequestPlan, mine: Answer, answers: Sequence[Answer], warm: bool) -> ScoredTurn:
    """Positions count the server's tokens, if it says how many a prompt has. answers: the first cold one, and all arms'."""
    n = min(shared(answers[0], each) for each in answers)
    begin = answers[0].prompt or plan.prompt
    wanted = [_wanted(answers, at) for at in range(n)]
    return ScoredTurn(
        plan.trace,
        plan.branch,
        plan.turn,
        plan.cluster,
        np.arange(begin, begin + n, dtype=np.int32),
        np.array([identity(token) for token, _ in wanted], np.int32),
        np.empty((n, 0), np.float32),
        (mine.cached or None) if warm else None,
        top=TopLogprobs.of(
            [_of(*wanted[at], mine, at) for at in range(n)], [identity(mine.token(at)) for at in range(n)]
        ),
    )


def _wanted(answers: Sequence[Answer], at: int) -> tuple[str, float | None]:
    """The token that is scored at a place, with its number: the first cold one's, or if that is over, another arm's."""
    going = next(each for each in answers if each.token(at) != END)
    entry = going.entry(at)
    return going.token(at), entry[0] if entry else None


def _of(wanted: str, number: float | None, mine: Answer, at: int) -> Entry | None:
    """What an arm said about the wanted token.

    One that isn't among the best is no likelier than the least of them: that bound stands for its log-probability, or the
    other arm's number where it lies below. Nothing is said about a token where an answer is over: the other arm's number
    stands there. So a difference is never larger than it is, and always counts.
    """
    token, entry = identity(wanted), mine.entry(at)
    if mine.token(at) == END:
        return None if number is None else (number, {identity(END): number})
    if entry is None or mine.token(at) == wanted or token in entry[1]:
        return None if entry is None else (entry[1][token], entry[1])
    return (None if number is None else min(number, *entry[1].values())), entry[1]
