"""A server between us and llama.cpp that changes completions: what a faulty engine would do, on a real one's answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx

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
    client = httpx.Client(base_url=url, timeout=60, trust_env=False)

    def send(body: Json) -> Json:
        return client.post("/completion", json=body).json()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path == "/completion":
                status, content = 200, json.dumps(spoil(json.loads(raw), send)).encode()
            else:
                there = client.request(
                    self.command, self.path, content=raw, headers={"content-type": "application/json"}
                )
                status, content = there.status_code, there.content
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer

        def log_message(self, *args: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
