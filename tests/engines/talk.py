"""A short talk with vLLM's HTTP server through the adapter: the same when it is recorded and when it is played back."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.compare.top import Entry
from replaycheck.subjects.server.engine import Ask, Facts, Reply
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.subjects.server.vllm import VllmEngine, tokenizer_of

__all__ = ["BLOCK", "PROMPT", "Talk", "talk"]

BLOCK = 128
"""Of the recorded server's cache: granitemoehybrid in fp32 on a CPU."""

PROMPT = tuple(2 + (at * at + 3 * at) % 97 for at in range(BLOCK + 7))


@dataclass(frozen=True)
class Talk:
    """What the adapter made of each part.

    Attributes:
        first, again, scored: the prompt without and with a hit, and its answer's token scored behind one. other: a token
            that isn't among the best ones. salted, reset, scoring: the prompt cold, by each way to keep it from hitting.
        whole: the last tokens of the prompt and the answer's first, scored by prompt_logprobs.
    """

    facts: Facts
    tokenizer: bool
    first: Reply
    again: Reply
    scored: Reply
    other: Reply
    salted: Reply
    reset: Reply
    scoring: Reply
    whole: list[Entry | None]


def talk(url: str) -> Talk:
    """All parts, in a fixed order, one request at a time."""
    engine = _engine(url, None)
    engine.learn()
    facts, tokenizer = engine.facts(), tokenizer_of(engine) is not None
    engine.begin("talk")
    first = _one(engine, Ask(PROMPT))
    token = first.tokens[0]
    again = _one(engine, Ask(PROMPT))
    scored = _one(engine, Ask(PROMPT, scored=token))
    other = _one(engine, Ask(PROMPT, scored=_unlisted(first)))
    salted = _one(engine, Ask(PROMPT, cold=True, scored=token))
    whole = engine.whole((*PROMPT, token), len(PROMPT) - 1)
    scoring = _one(_engine(url, "scoring"), Ask(PROMPT, cold=True, scored=token))
    resets = _engine(url, "reset")
    resets.begin("talk")
    reset = _one(resets, Ask(PROMPT, cold=True, scored=token))
    return Talk(facts, tokenizer, first, again, scored, other, salted, reset, scoring, whole)


def _engine(url: str, cold: str | None) -> VllmEngine:
    # Two best tokens: an answer of prompt_logprobs holds them at each of 136 positions.
    return VllmEngine(Client(url), ServerSettings(top=2, block=BLOCK, vocabulary=320, cold=cold))


def _one(engine: VllmEngine, ask: Ask) -> Reply:
    return engine.ask([ask])[0]


def _unlisted(reply: Reply) -> int:
    """A token about which nothing was said."""
    entry = reply.entries[0]
    assert entry is not None
    return next(token for token in range(320) if token not in entry[1])
