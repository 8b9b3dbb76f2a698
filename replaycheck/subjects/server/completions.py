"""OpenAI's ``/v1/completions``: what is sent, and how the answer is read without believing it.

Answers are aligned by ids, not by place. A number that isn't there is missing; one that can't be is an error that says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from replaycheck.compare.top import Entry

from .engine import Reply
from .http import ServerFault

__all__ = ["ID", "body", "cached_tokens", "choice_of", "reply", "scored"]

ID = "token_id:"
"""How tokens are named with ``return_tokens_as_token_ids``. Without it undecodable tokens share a name, and get lost."""

SLACK = 1e-3
"""A log-probability may exceed 0 by so much: a softmax in bf16 sums to 1 within 2^-8, and engines print float32."""


def body(model: str, tokens: Sequence[int], new: int, top: int, **more: object) -> dict[str, object]:
    """The request: greedy, no end, raw log-probabilities of ``top`` best tokens. ``more``: an engine's own fields."""
    fields: dict[str, object] = {
        "model": model,
        "prompt": list(tokens),
        "max_tokens": new,
        "temperature": 0,
        "logprobs": top,
        "seed": 0,
        "stream": False,
    }
    return fields | {name: value for name, value in more.items() if value is not None}


def choice_of(answer: Any, who: str) -> Mapping[str, Any]:
    """The one choice of an answer to one prompt. Raises :class:`ServerFault` for anything else."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not isinstance(choices, list):
        raise ServerFault(f"{who}: the answer has no list of choices; is this a completions endpoint?")
    mine = [each for each in choices if isinstance(each, Mapping) and each.get("index", 0) == 0]
    if len(choices) != 1 or len(mine) != 1:
        numbers = [each.get("index") if isinstance(each, Mapping) else each for each in choices]
        raise ServerFault(f"{who}: one prompt was sent, and choices {numbers} came back")
    return mine[0]


def reply(answer: Any, sent: Sequence[int], scored_token: int | None, who: str) -> Reply:
    """Read an answer to ``sent``.

    Raises:
        ServerFault: it answers another prompt, or holds what no log-probability can be.
    """
    choice = choice_of(answer, who)
    echoed = choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
    if echoed is not None and list(echoed) != list(sent):
        raise ServerFault(f"{who}: the answer is to another prompt ({len(echoed)} tokens, {len(sent)} were sent)")
    usage = answer.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if isinstance(counted, int) and counted != len(sent):
        raise ServerFault(f"{who}: {len(sent)} tokens were sent and {counted} were read; it adds or drops some")
    tokens = _tokens(choice, who)
    found = _entries(choice.get("logprobs"), tokens, who)
    return Reply(tokens, scored(found, scored_token), cached_tokens(answer, len(sent), who))


def scored(entries: Sequence[Entry | None], token: int | None) -> tuple[Entry | None, ...]:
    """Entries of which the first is about ``token``: what was said about it, which may be nothing."""
    if token is None or not entries or entries[0] is None:
        return tuple(entries)
    best = entries[0][1]
    return ((best.get(token), best), *entries[1:])


def cached_tokens(answer: Mapping[str, Any], prompt: int, who: str) -> int | None:
    """``usage.prompt_tokens_details.cached_tokens``; None if it isn't there."""
    usage = answer.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, Mapping) else None
    value = details.get("cached_tokens") if isinstance(details, Mapping) else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < max(1, prompt):
        raise ServerFault(
            f"{who}: cached_tokens is {value!r} of a prompt of {prompt}; it must be a whole number below that"
        )
    return value


def _tokens(choice: Mapping[str, Any], who: str) -> tuple[int, ...]:
    ids = choice.get("token_ids")
    if isinstance(ids, list) and all(isinstance(each, int) for each in ids):
        return tuple(ids)
    said = choice.get("logprobs")
    names = said.get("tokens") if isinstance(said, Mapping) else None
    if not isinstance(names, list):
        return ()
    return tuple(token_id(name, who) for name in names)


def token_id(name: Any, who: str) -> int:
    """The id in ``token_id:N`` or a bare number."""
    text = str(name).removeprefix(ID)
    if not text.isdecimal():
        raise ServerFault(
            f"{who}: a token is named {str(name)[:40]!r}, not {ID}N; the server doesn't know return_tokens_as_token_ids, "
            "and by texts positions can't be compared"
        )
    return int(text)


def _entries(said: Any, tokens: Sequence[int], who: str) -> list[Entry | None]:
    """One a generated token; those that the server left out are None."""
    if not isinstance(said, Mapping):
        return [None] * len(tokens)
    own, best = said.get("token_logprobs") or [], said.get("top_logprobs") or []
    if len(own) > len(tokens) or len(best) > len(tokens):
        raise ServerFault(f"{who}: {len(tokens)} tokens, and log-probabilities of {max(len(own), len(best))}")
    found: list[Entry | None] = []
    for at, token in enumerate(tokens):
        top = best[at] if at < len(best) else None
        listed = best_of(top, who)
        value = number(own[at], who) if at < len(own) else None
        # A token outside of the best ones is said beside them.
        found.append((listed.get(token) if value is None else value, listed) if listed else None)
    return found


def best_of(top: Any, who: str) -> dict[int, float]:
    """``{token_id:N: log-probability}``; entries without a number are left out."""
    if not isinstance(top, Mapping):
        return {}
    read = ((token_id(name, who), number(value, who)) for name, value in top.items())
    return {token: value for token, value in read if value is not None}


def number(value: Any, who: str) -> float | None:
    """A log-probability; null and whatever isn't a number is missing. NaN stays what it is, a finding.

    Raises :class:`ServerFault` for one above 0, which is no log-probability.
    """
    if isinstance(value, Mapping):
        value = value.get("logprob")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value > SLACK or value == math.inf:
        raise ServerFault(
            f"{who}: a log-probability is {value}; it can't be above 0 (are these logits or percentages?)"
        )
    return float(value)
