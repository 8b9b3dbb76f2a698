"""A server between us and llama.cpp that breaks on the wire: after so many completions, in one of the ways of WireFaults."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.loopback import Handler, Loopback
from tests.subjects.toy_server import WireFaults

Json = dict[str, Any]


class Counted:
    """completions: answered so far."""

    def __init__(self, wire: WireFaults) -> None:
        self.wire, self.completions = wire, 0

    @property
    def broken(self) -> bool:
        return self.completions > self.wire.after


@contextmanager
def faulty(url: str, wire: WireFaults) -> Iterator[tuple[str, Counted]]:
    """The URL of a server that hands everything to ``url`` and breaks, and how far it is."""
    seen = Counted(wire)
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client, Loopback(_handler(client, seen)) as server:
        yield server.url, seen


def _handler(client: httpx.Client, seen: Counted) -> type[Handler]:
    wire = seen.wire

    class Faulty(Handler):
        def do_GET(self) -> None:
            there = client.get(self.path)
            found = there.json()
            if self.path == "/props" and wire.version and seen.broken:
                found["build_info"] = wire.version
            self.send(json.dumps(found).encode(), there.status_code)

        def do_POST(self) -> None:
            there = client.post(self.path, content=self.body(), headers={"content-type": "application/json"})
            seen.completions += self.path == "/completion"
            if self.path != "/completion" or not seen.broken:
                self.send(there.content, there.status_code)
            else:
                self._break(there.json())

        def _break(self, answer: Json) -> None:
            if wire.dies:
                self.close_connection = True
                return
            time.sleep(wire.stalls)
            if wire.status:
                self.send(b'{"error": "it is broken"}', wire.status)
            elif wire.redirect:
                self.send(b"", 307, Location=wire.redirect)
            elif wire.not_json:
                self.send(b"<html>a proxy's page</html>")
            else:
                raw = json.dumps(_spoilt(answer, wire)).encode()
                self.send(raw[: len(raw) // 2] if wire.truncates else raw, length=len(raw))
                self.close_connection = wire.truncates

    return Faulty


def _spoilt(answer: Json, wire: WireFaults) -> Json:
    said = answer.get("completion_probabilities") or []
    if wire.nan or wire.null or wire.positive:
        value = float("nan") if wire.nan else None if wire.null else 0.5
        for each in said:
            each["logprob"] = value
            each["top_logprobs"] = [best | {"logprob": value} for best in each["top_logprobs"]]
    if wire.fewer:
        answer["completion_probabilities"] = []
    if wire.other_prompt:
        answer["timings"]["prompt_n"] += 1
    return answer
