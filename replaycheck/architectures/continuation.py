"""Operations that continue a cache: in pieces, token by token, from copies, after a rollback or a reset, in turns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .bench import ALONE, CUT, TOKENS, Bench, Compared
from .refusal import RefusedError, offered

__all__ = ["crop", "fork", "interleaved", "pieces", "reset", "rollback", "static_cache", "token_by_token"]

#: Lengths that a conversation is cut into. A first piece of 1 to 5 tokens is shorter than a convolution's window or just as
#: long; 31 to 33 and 63 to 65 lie at the boundary of a chunk; the long chains carry a state often.
PLANS = (
    *((cut, TOKENS - cut) for cut in (1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 100, 132)),
    (64, 32, 16, 8, 4, 3, 2, 1, 3),
    (40, 1, 40, 1, 1, 50),
    (7,) * 19,
)
DRAFT = 5
"""Tokens that are computed and then taken back."""


def pieces(bench: Bench) -> Iterator[Compared]:
    """A conversation in pieces of several tokens."""
    tokens = bench.conversation(0)
    for plan in PLANS:
        yield bench.compare(f"cut into {_words(plan)}", tokens, fed(bench, tokens, plan), 0)


def token_by_token(bench: Bench) -> Iterator[Compared]:
    """From the first token on, and behind a prompt."""
    tokens = bench.conversation(0)
    for prompt in (1, CUT):
        plan = (prompt, *(1,) * (TOKENS - prompt))
        yield bench.compare(f"token by token behind {prompt}", tokens, fed(bench, tokens, plan), 0)


def fork(bench: Bench) -> Iterator[Compared]:
    """Two copies of a cache go on with other tokens, and then the original does."""
    tokens, other = bench.conversation(0), bench.conversation(1)
    original = bench.begin(tokens[:, :CUT]).cache
    copies = copy.deepcopy(original), copy.deepcopy(original)
    for name, cache, tail in (
        ("first copy", copies[0], other),
        ("second copy", copies[1], tokens),
        ("original", original, other),
    ):
        path = torch.cat([tokens[:, :CUT], tail[:, CUT:]], 1)
        yield bench.compare(name, path, _continue(bench, path, CUT, cache), CUT)


def crop(bench: Bench) -> Iterator[Compared]:
    """Tokens are taken back by ``crop``, and others follow."""
    yield from _taken_back(bench, recording=False)


def rollback(bench: Bench) -> Iterator[Compared]:
    """The same on a cache that was told before to record its past, if it says that it can be cropped."""
    yield from _taken_back(bench, recording=True)


def reset(bench: Bench) -> Iterator[Compared]:
    """A cache is emptied by ``reset`` and used for another conversation."""
    tokens, other = bench.conversation(0), bench.conversation(1)
    cache = bench.begin(tokens).cache
    offered(cache, "reset")()
    yield bench.compare("in one piece", other, _continue(bench, other, 0, cache, (TOKENS,)), 0)
    cache.reset()
    yield bench.compare(
        "again, then token by token", tokens, _continue(bench, tokens, 0, cache, (CUT, *(1,) * ALONE)), 0
    )


def interleaved(bench: Bench) -> Iterator[Compared]:
    """Three conversations in turn, each with its cache; between them one that has none."""
    conversations, without = [bench.conversation(number) for number in range(3)], bench.conversation(3)
    caches, logits = [None] * 3, [[] for _ in range(3)]  # type: ignore[var-annotated]
    for a, b in ((0, 20), *((at, at + 1) for at in range(20, 20 + ALONE))):
        for number, tokens in enumerate(conversations):
            answer = bench.model(tokens[:, a:b], caches[number])
            caches[number] = answer.cache
            logits[number].append(answer.logits[0])
            bench.model.uncached(without[:, : b + 10])
    for number, tokens in enumerate(conversations):
        yield bench.compare(f"conversation {number + 1} of 3", tokens, torch.cat(logits[number]), 0)


def static_cache(bench: Bench) -> Iterator[Compared]:
    """The same pieces on the library's cache of fixed size."""
    from transformers import StaticCache

    if bench.model.cache_name == "state":
        raise RefusedError("its state isn't one of the library's caches")
    if not bench.model.module._can_compile_fullgraph:
        raise RefusedError("the model says that it has no static cache (_can_compile_fullgraph = False)")
    tokens = bench.conversation(0)
    for plan in ((TOKENS,), (CUT, TOKENS - CUT), (3, 60, *(1,) * (TOKENS - 63))):
        cache = StaticCache(config=bench.model.config, max_cache_len=TOKENS + 8)
        yield bench.compare(f"cut into {_words(plan)}", tokens, _continue(bench, tokens, 0, cache, plan), 0)


def fed(bench: Bench, tokens: Tensor, plan: Sequence[int]) -> Tensor:
    """Logits [T, vocabulary] of a sequence [1, T] fed in pieces of these lengths."""
    return _continue(bench, tokens, 0, None, plan)


def _continue(bench: Bench, tokens: Tensor, at: int, cache: Any, plan: Sequence[int] = ()) -> Tensor:
    """Logits [n, vocabulary] of the tokens from ``at`` on, in pieces; without a plan a few tokens alone."""
    logits = []
    for length in plan or (1,) * ALONE:
        answer = bench.model(tokens[:, at : at + length], cache)
        logits.append(answer.logits[0])
        cache, at = answer.cache, at + length
    return torch.cat(logits)


def _taken_back(bench: Bench, recording: bool) -> Iterator[Compared]:
    tokens, wrong = bench.conversation(0), bench.conversation(1)
    cache = bench.begin(tokens[:, :CUT]).cache
    crop = offered(cache, "crop")
    if recording:
        offered(cache, "activate_past_recording")()
        if not cache.is_croppable:
            raise RefusedError("its cache says that it can't be cropped (is_croppable = False)")
    cache = bench.model(wrong[:, CUT : CUT + DRAFT], cache).cache
    crop(-DRAFT)
    yield bench.compare(f"{DRAFT} tokens taken back", tokens, _continue(bench, tokens, CUT, cache), CUT)


def _words(plan: Sequence[int]) -> str:
    """``64, 32, 3``; a long plan by its beginning."""
    return ", ".join(map(str, plan)) if len(plan) <= 4 else f"{', '.join(map(str, plan[:3]))} and {len(plan) - 3} more"
