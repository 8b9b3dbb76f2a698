"""Exchanges with a server, kept as JSON: taken from a real one by a proxy on loopback, and played back without it.

An exchange is what was asked and what came back. Salts are drawn anew in each run, so they are kept by number: the first
that was seen is ``salt 1``, and whoever plays back has to use the same one again where the recording did.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.loopback import Handler, Loopback

__all__ = ["Exchange", "forward", "playing", "serving"]

Exchange = dict[str, Any]
"""method, path, asked (null without a body), status, answer."""

SALT = "cache_salt"

Answer = Callable[[str, str, Any], tuple[int, Any]]
"""From method, path and body to status and answer."""


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[Exchange]]]:
    """A server on loopback that answers by ``answer``: its URL, and the exchanges so far."""
    seen: list[Exchange] = []
    with Loopback(_handler(answer, seen)) as server:
        yield server.url, seen


def forward(url: str) -> Answer:
    """Ask the server at ``url``."""

    def answer(method: str, path: str, asked: Any) -> tuple[int, Any]:
        raw = None if asked is None else json.dumps(asked).encode()
        request = urllib.request.Request(url + path, raw, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as found:
                return found.status, json.loads(found.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    return answer


def playing(recorded: list[Exchange]) -> Answer:
    """The recorded answers, in order; a request that isn't the recorded one gets 418 and what it should have been."""
    left, salts = iter(recorded), dict[str, str]()

    def answer(method: str, path: str, asked: Any) -> tuple[int, Any]:
        wanted = next(left, None)
        mine = {"method": method, "path": path, "asked": numbered(asked, salts)}
        if wanted is None or any(wanted[name] != value for name, value in mine.items()):
            return 418, {"error": "not the recorded request", "wanted": wanted, "asked": mine}
        return wanted["status"], wanted["answer"]

    return answer


def numbered(asked: Any, salts: dict[str, str]) -> Any:
    """The request with its salt's number; ``salts`` grows."""
    if not isinstance(asked, dict) or SALT not in asked:
        return asked
    return asked | {SALT: salts.setdefault(asked[SALT], f"salt {len(salts) + 1}")}


def _handler(answer: Answer, seen: list[Exchange]) -> type[Handler]:
    salts: dict[str, str] = {}

    class Kept(Handler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            raw = self.body()
            asked = json.loads(raw) if raw else None
            status, said = answer(method, self.path, asked)
            seen.append(
                {"method": method, "path": self.path, "asked": numbered(asked, salts), "status": status, "answer": said}
            )
            self.send(json.dumps(said).encode(), status)

    return Kept
