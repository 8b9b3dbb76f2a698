"""A server between us and llama.cpp that changes completions: what a faulty engine would do, on a real one's answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.loopback import Handler, Loopback

Json = dict[str, Any]
Send = Callable[[Json], Json]
Spoil = Callable[[Json, Send], Json]
"""Takes the body of a completion and a way to ask the real server; gives the answer."""


def never_cached(body: Json, send: Send) -> Json:
    """Whatever is asked for, nothing is reused."""
    return send({**body, "cache_prompt": False})


def zeroed_state(body: Json, send: Send) -> Json:
    """A hit is reported and the state behind it is that of no tokens: the answer to the rest of the prompt alone."""
    answer = send(body)
    hit = answer["timings"]["cache_n"]
    if not hit:
        return answer
    wrong = send({**body, "prompt": body["prompt"][hit:], "cache_prompt": False, "id_slot": 1})
    return {**answer, "completion_probabilities": wrong["completion_probabilities"]}


@contextmanager
def proxy(url: str, spoil: Spoil) -> Iterator[str]:
    """The URL of a server that hands everything to ``url`` and spoils completions."""
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client, Loopback(_handler(client, spoil)) as server:
        yield server.url


def _handler(client: httpx.Client, spoil: Spoil) -> type[Handler]:
    def send(body: Json) -> Json:
        return client.post("/completion", json=body).json()

    class Between(Handler):
        def _answer(self) -> None:
            raw = self.body()
            if self.path == "/completion":
                self.send(json.dumps(spoil(json.loads(raw), send)).encode())
            else:
                headers = {"content-type": "application/json"}
                there = client.request(self.command, self.path, content=raw, headers=headers)
                self.send(there.content, there.status_code)

        do_GET = do_POST = _answer

    return Between
