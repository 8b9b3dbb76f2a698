"""vLLM over HTTP: OpenAI's completions with vLLM's extensions, measured on 0.24.0 and 0.32.0.

Start it with ``--enable-prefix-caching --enable-prompt-tokens-details`` (or no hit can be proven), and for ``cold=reset``
with VLLM_SERVER_DEV_MODE=1. A request is kept from hitting by a fresh ``cache_salt``; ``prompt_logprobs`` skips reading the
cache, too, so it can score a cold prompt and never a cached one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from replaycheck.compare.top import Entry
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schema.policy import VllmPolicy
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.traces.vocabulary import SIZE

from .completions import best_of, body, choice_of, number, reply, token_id
from .engine import Ask, Facts, Reply
from .http import Client, Refused, ServerFault
from .identity import WatchedClient
from .learn import Learnt, learn
from .settings import ServerSettings
from .subject import ServerSubject
from .words import choose_words

__all__ = ["VllmEngine", "clients", "factory", "tokenizer_of"]


class VllmEngine:
    """One server.

    Args:
        cold: another server that answers the cold requests, or None.
        model: the name by which it serves; None: the only one.
    """

    name = "vllm"

    def __init__(self, client: Client, settings: ServerSettings, model: str | None = None, cold: Client | None = None):
        self._client, self._cold, self._settings, self._wanted = client, cold, settings, model
        # Of this run alone, so that nothing an earlier run left in the cache can be hit. It is in no file.
        self._nonce = secrets.token_hex(8)
        self._space = "none"
        self._asked = 0
        self._learnt = Learnt(reports=False, block=settings.block)
        self._model, self._length = self._served()
        self._how = settings.cold or "salt"

    def learn(self) -> None:
        """Find out what the server doesn't say: whether it reports hits, and its block."""
        self._learnt = learn(self, self._settings.block, self._settings.length or self._length)

    def facts(self) -> Facts:
        """From /version and /v1/models; everything else was learnt before."""
        self._model, self._length = self._served()
        settings = self._settings
        return Facts(
            name=self.name,
            version=self._version(),
            model=self._model,
            vocabulary=settings.vocabulary or SIZE,
            length=settings.length or self._length,
            policy=self._policy(),
            asked=settings.pool,
            hits=self._learnt.reports,
            wholes=True,
            pinned=settings.pinned,
            together=True,
            settings={"cold": self._how} | ({"block": str(self._learnt.block)} if self._learnt.block else {}),
            not_seen=(
                "logits of the whole vocabulary, so there is no KL and equal bits can't be proven",
                "the states themselves",
                *self._learnt.not_seen,
            ),
        )

    def _policy(self) -> VllmPolicy | None:
        if not self._learnt.block:
            return None
        retain = self._settings.retain
        return VllmPolicy.model_validate(
            {
                "cache": "vllm-align",
                "block": self._learnt.block,
                "retain": int(retain) if retain.isdecimal() else retain,
                "capacity": self._settings.capacity,
            }
        )

    def _served(self) -> tuple[str, int | None]:
        listed = self._client.get("/v1/models")
        data = listed.get("data") if isinstance(listed, dict) else None
        there = {each["id"]: each for each in data or () if isinstance(each, dict) and isinstance(each.get("id"), str)}
        if not there:
            raise ServerFault(f"{self._client.url}/v1/models: no model is listed; is this an OpenAI-compatible server?")
        name = self._wanted or next(iter(there))
        if name not in there or (self._wanted is None and len(there) > 1):
            raise UsageError(f"--engine-model: the server has {', '.join(sorted(there))}; name one of these")
        length = there[name].get("max_model_len")
        return name, length if isinstance(length, int) else None

    def _version(self) -> str:
        answer = self._client.get("/version")
        return str(answer.get("version", "unknown")) if isinstance(answer, dict) else "unknown"

    def begin(self, space: str) -> None:
        """A salt of this name and run; with ``cold=reset`` an empty cache as well."""
        self._space = space
        if self._how == "reset":
            self._reset()

    def _reset(self) -> None:
        try:
            answer = self._client.post("/reset_prefix_cache", idempotent=True)
        except Refused as error:
            raise EngineEnvironmentError(
                f"{error}; start vLLM with VLLM_SERVER_DEV_MODE=1, or leave cold=reset out"
            ) from None
        if isinstance(answer, dict) and answer.get("success") is False:
            raise ServerFault(
                f"{self._client.url}/reset_prefix_cache: it didn't clear its cache; is something else running?"
            )

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        """Several at once by as many connections."""
        salted = [(ask, self._salt(ask)) for ask in asks]
        if len(asks) == 1:
            return [self._one(*salted[0])]
        with ThreadPoolExecutor(len(asks)) as threads:
            return list(threads.map(lambda each: self._one(*each), salted))

    def _salt(self, ask: Ask) -> str:
        """Of its own for a cold request; one for all warm ones of a space."""
        self._asked += 1
        name = f"{self._nonce}/{self._space}/{self._asked if ask.cold else 'warm'}"
        return blake2b(name.encode(), digest_size=16).hexdigest()

    def _one(self, ask: Ask, salt: str) -> Reply:
        if ask.cold and self._how == "reset":
            self._reset()
        sent = self._body(ask.tokens, ask.new, cache_salt=salt)
        if ask.cold and self._how == "scoring":
            sent["prompt_logprobs"] = 0
        client = self._cold if ask.cold and self._cold else self._client
        answer = client.post("/v1/completions", sent)
        found = reply(answer, ask.tokens, ask.scored, client.url)
        if len(found.tokens) != ask.new:
            raise ServerFault(f"{client.url}: {ask.new} tokens were asked for, {len(found.tokens)} came")
        if found.cached is None and self._learnt.reports:
            # It leaves the field out where nothing was cached.
            return replace(found, cached=0)
        return found

    def _body(self, tokens: Sequence[int], new: int, **more: object) -> dict[str, object]:
        return body(
            self._model,
            tokens,
            new,
            self._settings.top,
            ignore_eos=True,
            return_token_ids=True,
            return_tokens_as_token_ids=True,
            **more,
        )

    def whole(self, tokens: Sequence[int], first: int) -> list[Entry | None]:
        """By ``prompt_logprobs``, which computes the prompt anew."""
        sent = self._body(tokens, 1, cache_salt=self._salt(Ask(tuple(tokens), cold=True)))
        sent["prompt_logprobs"] = self._settings.top
        client = self._cold or self._client
        said = choice_of(client.post("/v1/completions", sent), client.url).get("prompt_logprobs")
        if not isinstance(said, list):
            return [None] * (len(tokens) - first)
        return [
            _prompt_entry(said[at] if at < len(said) else None, tokens[at], client.url)
            for at in range(first, len(tokens))
        ]

    def tokenize(self, text: str) -> list[int]:
        """By /tokenize, without marks at the ends. Raises :class:`Refused` where there is no tokenizer."""
        answer = self._client.post(
            "/tokenize",
            {"model": self._model, "prompt": text, "add_special_tokens": False},
            idempotent=True,
        )
        return [token_id(each, self._client.url) for each in answer["tokens"]]


def _prompt_entry(said: Any, token: int, who: str) -> Entry | None:
    """``{"ID": {"logprob": …}}`` of one prompt token."""
    best = best_of(said, who)
    if not best:
        return None
    return (number(said.get(str(token)), who) if str(token) in said else None), best


def clients(options: SubjectOptions, settings: ServerSettings) -> tuple[WatchedClient, WatchedClient | None]:
    """The server, and the one that answers cold requests if there is another."""
    if options.url is None:
        raise UsageError("a server needs --url, such as http://127.0.0.1:8000")
    if options.model is not None:
        raise UsageError("a server's model is named with --engine-model; leave --model out")
    cold = WatchedClient(settings.cold_url, settings.limits) if settings.cold_url else None
    return WatchedClient(options.url, settings.limits), cold


def factory(options: SubjectOptions) -> ServerSubject:
    """What ``--subject vllm --url URL`` calls."""
    settings = ServerSettings.of(options)
    client, cold = clients(options, settings)
    engine = VllmEngine(client, settings, options.engine_model, cold)
    engine.learn()
    facts = engine.facts()
    words = choose_words(settings.tokens, facts.model, facts.vocabulary, tokenizer_of(engine))
    return ServerSubject(engine, settings, words)


def tokenizer_of(engine: VllmEngine) -> Any:
    """The server's own tokenizer, text → token ids; None if it has no such endpoint."""
    try:
        engine.tokenize("a")
    except ServerFault:
        return None
    return engine.tokenize
