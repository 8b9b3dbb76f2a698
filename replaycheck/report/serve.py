"""A small web server for one run's report, on the loopback interface only.

It answers GET and HEAD of a fixed list of paths: the page, and the files that the page links to. There are no directory
listings, no path from a request ever reaches the file system, links aren't followed, and a request that names another host
(DNS rebinding) is refused.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.replay.store import open_run

__all__ = ["Server", "serve"]

HOST = "127.0.0.1"

_TYPES = {
    "report.html": "text/html; charset=utf-8",
    "result.json": "application/json",
    "environment.json": "application/json",
    "divergences.parquet": "application/octet-stream",
    "junit.xml": "application/xml",
    "summary.md": "text/plain; charset=utf-8",
    "log.txt": "text/plain; charset=utf-8",
}
"""What is served, if it is there. The folders of parquet parts are for programs, which have the file system."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

SECONDS = 30
"""Of silence after which a connection is closed."""


class Server(ThreadingHTTPServer):
    """``files``: path of a request to the file and its type."""

    daemon_threads = True

    def __init__(self, port: int, files: Mapping[str, tuple[Path, str]]) -> None:
        super().__init__((HOST, port), _Handler)
        self.files = files


def serve(run: Path, port: int = 0) -> Server:
    """A server that listens on 127.0.0.1; call ``serve_forever``. Port 0: a free one.

    Raises UsageError if ``run`` has no report, EngineEnvironmentError if the port is taken.
    """
    folder = open_run(run).path
    if not _is_file(folder / "report.html"):
        raise UsageError(f"{str(run)!r} has no report.html; make it with: replaycheck report {run}")
    files = {f"/{name}": (folder / name, kind) for name, kind in _TYPES.items() if _is_file(folder / name)}
    files["/"] = files["/report.html"]
    try:
        return Server(port, files)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise EngineEnvironmentError(
            f"port {port} can't be used ({error.strerror}); leave --port out to get a free one"
        ) from None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "replaycheck", ""
    timeout = SECONDS

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        if self.headers.get("Host", "") not in {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}:
            self._send(HTTPStatus.FORBIDDEN, b"forbidden\n", "text/plain", body)
            return
        found = self.server.files.get(self.path.partition("?")[0])
        if found is None or not _is_file(found[0]):
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain", body)
        else:
            self._send(HTTPStatus.OK, found[0].read_bytes(), found[1], body)

    def _send(self, status: HTTPStatus, content: bytes, kind: str, body: bool) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what a browser asks for is of no interest, and requests are text from outside."""
