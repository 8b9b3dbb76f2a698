"""A server on loopback, there while it is used as a context, whose handler writes nothing to stderr."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Handler(BaseHTTPRequestHandler):
    """Connections are kept, as servers of engines do."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, raw: bytes, status: int = 200, length: int | None = None, **headers: str) -> None:
        """length: what the header claims, where it isn't that of ``raw``."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw) if length is None else length))
        self.end_headers()
        self.wfile.write(raw)


class Loopback:
    """Serves by a handler, in threads."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.handler = handler
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
