"""SGLang's own API: ``/generate`` with ids, hits in ``meta_info.cached_tokens``, ``/flush_cache`` between the arms.

Fields as SGLang 0.5.17 sent them on an H200 (tests/subjects/server/test_sglang_recorded.py has the exchange). There is no
salt, so a cold request flushes the cache first, which the server does only while it is idle: nothing else may use it during
a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from replaycheck.compare.top import Entry
from replaycheck.errors import EngineEnvironmentError
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.policy import SglangPolicy
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.traces.vocabulary import SIZE

from .completions import number
from .engine import Ask, Facts, Reply
from .http import Client, Refused, ServerFault
from .learn import Learnt, learn
from .settings import ServerSettings
from .subject import ServerSubject
from .vllm import clients
from .words import choose_words

__all__ = ["SglangEngine", "factory"]

NAME = "sglang"

FLUSHES, PAUSE = 20, 0.25
"""A flush is refused while a request is being cleaned up; tries, and seconds between them."""

DTYPES = {"float32": PoolDtype.FP32, "bfloat16": PoolDtype.BF16, "float16": PoolDtype.FP16}


class SglangEngine:
    """One server."""

    def __init__(
        self,
        client: Client,
        settings: ServerSettings,
        cold: Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._settings, self._cold, self._sleep = client, settings, cold, sleep
        self._learnt = Learnt(reports=True, block=settings.page)

    def learn(self) -> None:
        """Whether a prompt that is sent twice hits at all."""
        found = learn(self, max(64, self._settings.page), self._settings.length)
        self._learnt = Learnt(found.reports, self._settings.page, found.not_seen)

    def facts(self) -> Facts:
        """From /server_info and /model_info."""
        info, model = self._said("server_info"), self._said("model_info")
        wanted, said = self._settings.pool, DTYPES.get(str(info.get("mamba_ssm_dtype")))
        named = (
            "mamba_ssm_dtype",
            "mamba_radix_cache_strategy",
            "chunked_prefill_size",
            "page_size",
            "attention_backend",
        )
        return Facts(
            name=NAME,
            version=str(info.get("version", "unknown")),
            model=str(model.get("model_path", "unknown")).rstrip("/").rpartition("/")[2],
            vocabulary=self._settings.vocabulary or SIZE,
            length=self._settings.length or _whole(info.get("context_length")),
            policy=self._policy(info),
            # Its own word shows that it isn't the one that the user wants; it doesn't prove what lies in the pool.
            pool=said if wanted not in (None, said) else None,
            asked=wanted or said,
            hits=self._learnt.reports,
            pinned=self._settings.pinned,
            together=True,
            deterministic=True if info.get("enable_deterministic_inference") else None,
            semantics="log-softmax of the logits, float32, temperature 0",
            settings={name: str(info[name]) for name in named if info.get(name) is not None},
            not_seen=(
                "logits of the whole vocabulary, so there is no KL and equal bits can't be proven",
                "the states themselves",
                *self._learnt.not_seen,
            ),
        )

    def _said(self, what: str) -> Mapping[str, Any]:
        """0.5.17 calls its first names, /get_server_info and /get_model_info, deprecated; older servers have no others."""
        try:
            said = self._client.get(f"/{what}")
        except Refused as error:
            if error.status != 404:
                raise
            said = self._client.get(f"/get_{what}")
        if not isinstance(said, dict):
            raise ServerFault(f"{self._client.url}/{what}: no object came back; is this an SGLang server?")
        return said

    def _policy(self, info: Mapping[str, Any]) -> SglangPolicy:
        said = str(info.get("mamba_radix_cache_strategy") or info.get("mamba_scheduler_strategy") or "")
        buffered = "extra" in said if said else self._settings.radix == "extra-buffer"
        return SglangPolicy(
            cache="sglang-extra-buffer" if buffered else "sglang-no-buffer",
            page=(_whole(info.get("page_size")) or self._settings.page) if buffered else 1,
            track_interval=_whole(info.get("mamba_track_interval")) or self._settings.track_interval,
            budget=_whole(info.get("chunked_prefill_size")),
            capacity=self._settings.capacity,
        )

    def begin(self, space: str) -> None:
        """An empty cache."""
        self._flush()

    def _flush(self) -> None:
        for _ in range(FLUSHES):
            try:
                # Its answer is a sentence, not JSON; by GET, because only there a text is read as one.
                self._client.text("/flush_cache")
                return
            except Refused as error:
                if error.status != 400:
                    raise
            self._sleep(PAUSE)
        raise EngineEnvironmentError(
            f"{self._client.url}/flush_cache: refused {FLUSHES} times, so it isn't idle; nothing else may use the server "
            "during a run"
        )

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        """Cold ones after a flush each; those that are on their way together share one, and no prefix may be shared then."""
        if len(asks) == 1:
            return [self._one(asks[0], flush=True)]
        if any(ask.cold for ask in asks) and not self._cold:
            self._flush()
        with ThreadPoolExecutor(len(asks)) as threads:
            return list(threads.map(lambda ask: self._one(ask, flush=False), asks))

    @property
    def _top(self) -> int:
        """-1, all of them, is no number that SGLang takes."""
        return self._settings.top if self._settings.top > 0 else self._settings.vocabulary or SIZE

    def _one(self, ask: Ask, flush: bool) -> Reply:
        client = self._cold if ask.cold and self._cold else self._client
        if ask.cold and flush and not self._cold:
            self._flush()
        sent: dict[str, object] = {
            "input_ids": list(ask.tokens),
            "sampling_params": {"temperature": 0, "max_new_tokens": ask.new, "ignore_eos": True},
            "return_logprob": True,
            "logprob_start_len": -1,
            "top_logprobs_num": self._top,
            "stream": False,
        }
        if ask.scored is not None:
            sent["token_ids_logprob"] = [ask.scored]
        return read(client.post("/generate", sent), ask, client.url)

    def whole(self, tokens: Sequence[int], first: int) -> list[Entry | None]:
        """Not used: prompt log-probabilities make SGLang skip its cache for later requests' prefix, too."""
        raise NotImplementedError


def read(answer: Any, ask: Ask, who: str) -> Reply:
    """Read what /generate gave for ``ask``. Raises :class:`ServerFault` for an answer to another prompt."""
    meta = answer.get("meta_info") if isinstance(answer, Mapping) else None
    if not isinstance(meta, Mapping):
        raise ServerFault(f"{who}/generate: the answer has no meta_info")
    if meta.get("prompt_tokens") not in (None, len(ask.tokens)):
        raise ServerFault(f"{who}/generate: {len(ask.tokens)} tokens were sent and {meta['prompt_tokens']} were read")
    own = _pairs(meta.get("output_token_logprobs"), who)
    tokens = tuple(answer.get("output_ids") or [token for token, _ in own])
    if len(tokens) != ask.new:
        raise ServerFault(f"{who}/generate: {ask.new} tokens were asked for, {len(tokens)} came")
    tops = meta.get("output_top_logprobs") or []
    entries = [_entry(own, tops, at, token, who) for at, token in enumerate(tokens)]
    if ask.scored is not None and entries:
        entries[0] = _about(entries[0], ask.scored, meta.get("output_token_ids_logprobs"), who)
    cached = meta.get("cached_tokens")
    return Reply(tokens, tuple(entries), cached if isinstance(cached, int) else None)


def _entry(own: Sequence[tuple[int, float | None]], tops: Any, at: int, token: int, who: str) -> Entry | None:
    best = {each: value for each, value in _pairs(tops[at] if at < len(tops) else None, who) if value is not None}
    if not best:
        return None
    said = own[at][1] if at < len(own) and own[at][0] == token else None
    return (best.get(token) if said is None else said, best)


def _about(entry: Entry | None, token: int, asked: Any, who: str) -> Entry | None:
    """The first entry, about the scored token: from the list that was asked for, else from the best ones."""
    if entry is None:
        return None
    listed = dict(_pairs(asked[0] if asked else None, who))
    value = listed.get(token)
    return (entry[1].get(token) if value is None else value, entry[1])


def _pairs(said: Any, who: str) -> list[tuple[int, float | None]]:
    """``[log-probability, id, text]`` triples."""
    if not isinstance(said, list):
        return []
    return [
        (each[1], number(each[0], who))
        for each in said
        if isinstance(each, list | tuple) and len(each) > 1 and isinstance(each[1], int)
    ]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def factory(options: SubjectOptions) -> ServerSubject:
    """What ``--subject sglang --url URL`` calls."""
    settings = ServerSettings.of(options)
    client, cold = clients(options, settings)
    engine = SglangEngine(client, settings, cold)
    engine.learn()
    facts = engine.facts()
    return ServerSubject(engine, settings, choose_words(settings.tokens, facts.model, facts.vocabulary, None))
