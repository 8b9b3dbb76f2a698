"""A server between us and llama.cpp that breaks on the wire: after so many completions, in one of the ways of WireFaults."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx

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
    client, seen = httpx.Client(base_url=url, timeout=60, trust_env=False), Counted(wire)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(client, seen))
    server.daemon_threads = True
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        client.close()


def _handler(client: httpx.Client, seen: Counted) -> type[BaseHTTPRequestHandler]:
    wire = seen.wire

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

        def do_GET(self) -> None:
            there = client.get(self.path)
            found = there.json()
            if self.path == "/props" and wire.version and seen.broken:
                found["build_info"] = wire.version
            self._send(json.dumps(found).encode(), there.status_code)

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers.get("content-length", 0)))
            there = client.post(self.path, content=asked, headers={"content-type": "application/json"})
            seen.completions += self.path == "/completion"
            if self.path != "/completion" or not seen.broken:
                self._send(there.content, there.status_code)
            else:
                self._break(there.json())

        def _break(self, answer: Json) -> None:
            if wire.dies:
                return
            time.sleep(wire.stalls)
            if wire.status:
                self._send(b'{"error": "it is broken"}', wire.status)
            elif wire.redirect:
                self._send(b"", 307, location=wire.redirect)
            elif wire.not_json:
                self._send(b"<html>a proxy's page</html>", 200)
            else:
                raw = json.dumps(_spoilt(answer, wire)).encode()
                self._send(raw[: len(raw) // 2] if wire.truncates else raw, 200, length=len(raw))

        def _send(self, raw: bytes, status: int, location: str = "", length: int | None = None) -> None:
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.send_header("content-length", str(len(raw) if length is None else length))
            self.end_headers()
            self.wfile.write(raw)

    return Handler


def _spoilt(answer: Json, wire: WireFaults) -> Json:
    said = answer.get("completion_probabilities") or []
    if wire.other_prompt:
        answer["timings"]["prompt_n"] += 1
    if wire.nan or wire.null or wire.positive:
        value = float("nan") if wire.nan else None if wire.null else 0.5
        for each in said:
            each["logprob"] = value
            each["top_logprobs"] = [best | {"logprob": value} for best in each["top_logprobs"]]
    if wire.fewer:
        answer["completion_probabilities"] = []
    return answer
