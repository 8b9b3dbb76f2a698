"""A local server that speaks enough of vLLM's, SGLang's and OpenAI's API for a toy model, and can break in every way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.loopback import Handler, Loopback
from tests.subjects.toy_model import CacheFaults, ToyEngine


@dataclass(frozen=True)
class WireFaults:
    """What goes wrong on the wire; ``after``: completions that go well before.

    dies: the connection is closed without an answer. stalls: seconds of silence. truncates: half of the body. status: an
    error of that number. other_prompt: the answer is to another prompt. choices: two of them, out of order. nan, null:
    instead of the log-probabilities. fewer: none of them. no_top: an empty list beside 0.0. positive: one above 0.
    version: another one, at /version and as the fingerprint of each answer. oversize: bytes of padding. not_json: an HTML
    page. redirect: to another place.
    """

    after: int = 0
    dies: bool = False
    stalls: float = 0.0
    truncates: bool = False
    status: int = 0
    other_prompt: bool = False
    choices: bool = False
    nan: bool = False
    null: bool = False
    fewer: bool = False
    no_top: bool = False
    positive: bool = False
    version: str = ""
    oversize: int = 0
    not_json: bool = False
    redirect: str = ""


Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Inside:
    """Which requests are in the server at once."""

    def __init__(self) -> None:
        self._lock, self._here, self._accompanied = threading.Lock(), set[int](), set[int]()
        self.most = 0

    def come(self, who: int) -> None:
        with self._lock:
            self._here.add(who)
            self.most = max(self.most, len(self._here))
            if len(self._here) > 1:
                self._accompanied |= self._here

    def go(self, who: int) -> bool:
        """Whether there was another one at any time."""
        with self._lock:
            self._here.discard(who)
            accompanied = who in self._accompanied
            self._accompanied.discard(who)
            return accompanied


class ToyServer(Loopback):
    """The server.

    Args:
        plain: without vLLM's extensions beside naming tokens by id. salted: a cache_salt is obeyed.
        gather: seconds that a request waits for others, so that those sent at once are in it at once.
        fingerprint: of the engine, in each completion; "": it says none.
    """

    def __init__(
        self,
        cache: CacheFaults | None = None,
        wire: WireFaults | None = None,
        block: int = 16,
        plain: bool = False,
        salted: bool = True,
        name: str = "toy",
        gather: float = 0.0,
        fingerprint: str = "",
    ) -> None:
        self.engine = ToyEngine(block, cache)
        self.faults = cache or CacheFaults()
        self.wire = wire or WireFaults()
        self.plain, self.salted = plain, salted
        self.name, self.fingerprint = name, fingerprint
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.completions = 0
        self.lock = threading.Lock()
        self.inside, self.gather = Inside(), gather
        super().__init__(_handler(self))

    @property
    def broken(self) -> bool:
        return self.completions > self.wire.after

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As vLLM answers /v1/completions."""
        tokens = tuple(asked["prompt"])
        salt = asked.get("cache_salt", "") if self.salted else ""
        scores_prompt = "prompt_logprobs" in asked and not self.plain
        covered, state = self.engine.prompt(salt, tokens, read=not scores_prompt)
        made, said = self._decode(state, asked["max_tokens"], asked.get("logprobs") or 0)
        choice: dict[str, Any] = {"index": 0, "text": "?", "finish_reason": "length", "logprobs": _listed(made, said)}
        if not self.plain:
            choice |= {"token_ids": made, "prompt_token_ids": list(tokens)}
        if scores_prompt:
            choice["prompt_logprobs"] = self._prompt(tokens, asked["prompt_logprobs"])
        details = None if self.faults.silent else {"cached_tokens": covered}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": len(made), "prompt_tokens_details": details}
        made_by = {"system_fingerprint": self.fingerprint} if self.fingerprint else {}
        answer = {"id": "toy", "object": "text_completion", "model": self.name, "choices": [choice], "usage": usage}
        return answer | made_by

    def generation(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As SGLang answers /generate."""
        tokens = tuple(asked["input_ids"])
        covered, state = self.engine.prompt("", tokens)
        made, said = self._decode(state, asked["sampling_params"]["max_new_tokens"], asked.get("top_logprobs_num", 0))
        meta = {
            "cached_tokens": covered,
            "prompt_tokens": len(tokens),
            "output_token_logprobs": [[lp, token, None] for token, lp, _ in said],
            "output_top_logprobs": [[[lp, token, None] for token, lp in top.items()] for _, _, top in said],
            "output_token_ids_logprobs": [
                [[self._of(state, token), token, None] for token in asked.get("token_ids_logprob") or ()]
            ],
        }
        return {"text": "?", "output_ids": made, "meta_info": meta}

    def _of(self, state: np.ndarray[Any, Any], token: int) -> float:
        return float(self.engine.model.logprobs(state)[token])

    def _decode(
        self, state: np.ndarray[Any, Any], new: int, top: int
    ) -> tuple[list[int], list[tuple[int, float, dict[int, float]]]]:
        made, said = [], []
        for _ in range(new):
            logprobs = self.engine.model.logprobs(state)
            best = [int(each) for each in np.argsort(-logprobs, kind="stable")[:top]]
            token = int(np.argmax(logprobs))
            made.append(token)
            said.append((token, float(logprobs[token]), {each: float(logprobs[each]) for each in best}))
            state = self.engine.model.run(state, (token,))
        return made, said

    def _prompt(self, tokens: tuple[int, ...], top: int) -> list[Any]:
        state = self.engine.model.run(np.zeros(24), tokens[:1])
        found: list[Any] = [None]
        for token in tokens[1:]:
            logprobs = self.engine.model.logprobs(state)
            best = {int(each) for each in np.argsort(-logprobs, kind="stable")[:top]} | {token}
            found.append({str(each): {"logprob": float(logprobs[each]), "rank": 1} for each in best})
            state = self.engine.model.run(state, (token,))
        return found


def _listed(made: list[int], said: list[tuple[int, float, dict[int, float]]]) -> dict[str, Any]:
    return {
        "tokens": [f"token_id:{token}" for token in made],
        "token_logprobs": [logprob for _, logprob, _ in said],
        "top_logprobs": [{f"token_id:{token}": value for token, value in top.items()} for _, _, top in said],
        "text_offset": list(range(len(made))),
    }


def _spoilt(answer: dict[str, Any], wire: WireFaults) -> dict[str, Any]:
    choice = answer["choices"][0]
    said = choice["logprobs"]
    if wire.other_prompt and "prompt_token_ids" in choice:
        choice["prompt_token_ids"] = [*choice["prompt_token_ids"][:-1], 1]
    elif wire.other_prompt:
        answer["usage"]["prompt_tokens"] += 1
    if wire.version and "system_fingerprint" in answer:
        answer["system_fingerprint"] = wire.version
    if wire.choices:
        answer["choices"] = [choice | {"index": 1}, choice]
    if wire.nan or wire.null or wire.positive:
        value = float("nan") if wire.nan else None if wire.null else 0.5
        said["token_logprobs"] = [value for _ in said["token_logprobs"]]
        said["top_logprobs"] = [dict.fromkeys(top, value) for top in said["top_logprobs"]]
    if wire.fewer:
        said["token_logprobs"], said["top_logprobs"] = [], []
    if wire.no_top:
        said["token_logprobs"], said["top_logprobs"] = [0.0], [{}]
    if wire.oversize:
        answer["padding"] = "x" * wire.oversize
    return answer


def _spoilt_generation(answer: dict[str, Any], wire: WireFaults) -> Any:
    """The same for SGLang's answers, of which all log-probabilities are [number, id, text]."""
    meta = answer["meta_info"]
    said = ("output_token_logprobs", "output_top_logprobs", "output_token_ids_logprobs")
    if wire.other_prompt:
        meta["prompt_tokens"] += 1
    if wire.nan or wire.null or wire.positive:
        value = float("nan") if wire.nan else None if wire.null else 0.5
        meta |= {name: _with(meta[name], value) for name in said}
    if wire.fewer:
        meta |= {name: [] for name in said}
    return [answer, answer] if wire.choices else answer


def _with(said: list[Any], value: float | None) -> list[Any]:
    """Every number of nested triples replaced."""
    triple = len(said) == 3 and not isinstance(said[1], list)
    return [value, *said[1:]] if triple else [_with(each, value) for each in said]


def _handler(toy: ToyServer) -> type[Handler]:
    class Toy(Handler):
        def do_GET(self) -> None:
            toy.requests.append((self.path, None, dict(self.headers)))
            if self.path == "/v1/models":
                self._send({"object": "list", "data": [{"id": toy.name, "max_model_len": 4096}]})
            elif self.path == "/version" and not toy.plain:
                changed = toy.wire.version if toy.wire.version and toy.broken else ""
                self._send({"version": changed or "0.24.0"})
            elif self.path == "/get_server_info" and not toy.plain:
                changed = toy.wire.version if toy.broken else ""
                self._send({"version": changed or "0.5.23", "page_size": 1, "mamba_ssm_dtype": "float32"})
            elif self.path == "/get_model_info" and not toy.plain:
                self._send({"model_path": toy.name})
            elif self.path == "/flush_cache" and not toy.plain:
                with toy.lock:
                    toy.engine.cache.states.clear()
                self.send(b"Cache flushed.\n")
            else:
                self._send({"error": "not found"}, 404)

        def do_POST(self) -> None:
            body = self.body()
            asked = json.loads(body) if body else {}
            toy.requests.append((self.path, asked, dict(self.headers)))
            accompanied = self._wait()
            with toy.lock:
                toy.engine.cache.accompanied = accompanied
                self._post(asked)

        def _wait(self) -> bool:
            """Whether others came meanwhile."""
            toy.inside.come(id(self))
            time.sleep(toy.gather)
            return toy.inside.go(id(self))

        def _post(self, asked: dict[str, Any]) -> None:
            if self.path == "/reset_prefix_cache" and not toy.plain:
                toy.engine.cache.states.clear()
                self._send({"success": True})
            elif self.path == "/v1/completions":
                toy.completions += 1
                self._complete(asked, toy.completion, _spoilt)
            elif self.path == "/generate" and not toy.plain:
                toy.completions += 1
                self._complete(asked, toy.generation, _spoilt_generation)
            else:
                self._send({"error": "not found"}, 404)

        def _complete(self, asked: dict[str, Any], answer: Answer, spoil: Callable[[Any, WireFaults], Any]) -> None:
            wire = toy.wire
            if not toy.broken:
                self._send(answer(asked))
                return
            if wire.dies:
                self.close_connection = True
                return
            time.sleep(wire.stalls)
            if wire.status:
                self._send({"error": "it is broken"}, wire.status)
            elif wire.redirect:
                self.send(b"", 307, Location=wire.redirect)
            elif wire.not_json:
                self.send(b"<html>a proxy's page</html>")
            else:
                raw = json.dumps(spoil(answer(asked), wire)).encode()
                self.send(raw[: len(raw) // 2] if wire.truncates else raw, length=len(raw))
                self.close_connection = wire.truncates

        def _send(self, value: object, status: int = 200) -> None:
            self.send(json.dumps(value).encode(), status)

    return Toy
