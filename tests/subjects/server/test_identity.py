"""Another engine behind the same address: what is watched, what isn't a sign, and what a run says about it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from replaycheck.subjects.server.http import ServerFault
from replaycheck.subjects.server.identity import WatchedClient


class Endpoint:
    """Answers from plain data that a test changes; counts seconds itself."""

    def __init__(self) -> None:
        self.entry: dict[str, Any] = {"id": "m", "created": 1000, "owned_by": "us"}
        self.answer: dict[str, Any] = {"model": "m", "system_fingerprint": "fp-1", "choices": []}
        self.headers: dict[str, str] = {"server": "engine/1"}
        self.version: str | None = "1.0"
        self.seconds = 0.0
        self.client = WatchedClient(
            "http://x", transport=httpx.MockTransport(self._serve), sleep=lambda _: None, clock=lambda: self.seconds
        )

    def _serve(self, request: httpx.Request) -> httpx.Response:
        pages: dict[str, Any] = {"/v1/models": {"data": [self.entry]}, "/v1/completions": self.answer}
        if self.version is not None:
            pages["/version"] = {"version": self.version}
        found = pages.get(request.url.path)
        return httpx.Response(404 if found is None else 200, json=found or {}, headers=self.headers)

    def ask(self) -> None:
        self.client.post("/v1/completions", {})

    def begin(self) -> None:
        self.ask()
        self.client.check("m")


@pytest.fixture
def endpoint() -> Endpoint:
    found = Endpoint()
    found.begin()
    return found


def test_the_same_engine_is_no_change(endpoint: Endpoint) -> None:
    endpoint.seconds = 500.0
    endpoint.ask()
    endpoint.client.check("m")


@pytest.mark.parametrize("now", ["fp-2", None])
def test_an_answer_of_another_engine_is_refused_at_once(endpoint: Endpoint, now: str | None) -> None:
    endpoint.answer["system_fingerprint"] = now
    with pytest.raises(ServerFault, match=f"system_fingerprint changed in mid-run, from 'fp-1' to {now!r}"):
        endpoint.ask()


def test_another_model_or_server_is_refused_at_once(endpoint: Endpoint) -> None:
    endpoint.answer["model"] = "n"
    with pytest.raises(ServerFault, match="its model changed"):
        endpoint.ask()
    endpoint.answer["model"], endpoint.headers = "m", {"server": "engine/2"}
    with pytest.raises(ServerFault, match="its server header changed"):
        endpoint.ask()


def test_what_is_said_beside_completions_is_compared_between_groups(endpoint: Endpoint) -> None:
    endpoint.version = "1.1"
    with pytest.raises(ServerFault, match=r"its version changed in mid-run, from '1.0' to '1.1'"):
        endpoint.client.check("m")
    endpoint.version, endpoint.entry["id"] = "1.0", "other"
    with pytest.raises(ServerFault, match="its id in /v1/models changed"):
        endpoint.client.check("m")


def test_created_is_a_sign_unless_it_is_the_time_of_the_request(endpoint: Endpoint) -> None:
    endpoint.seconds = 60.0
    endpoint.entry["created"] = 1060
    endpoint.client.check("m")
    endpoint.entry["created"] = 1030
    with pytest.raises(ServerFault, match="its created changed in mid-run, from '1000' to '1030'"):
        endpoint.client.check("m")


def test_what_it_would_be_noticed_by_is_said_or_that_nothing_would_tell() -> None:
    endpoint = Endpoint()
    endpoint.begin()
    assert "noticed by its system_fingerprint, server header, version, created" in endpoint.client.not_seen()
    silent = Endpoint()
    silent.answer, silent.headers, silent.version = {"model": "m", "choices": []}, {}, None
    silent.entry = {"id": "m", "owned_by": "us"}
    silent.begin()
    assert "whether another engine answers in mid-run" in silent.client.not_seen()
    silent.answer["system_fingerprint"] = "fp-9"
    silent.ask()


def test_a_page_that_fails_otherwise_than_by_not_being_there_is_an_error(endpoint: Endpoint) -> None:
    endpoint.client = WatchedClient(
        "http://x", transport=httpx.MockTransport(lambda _: httpx.Response(403)), sleep=lambda _: None
    )
    with pytest.raises(ServerFault, match="not allowed"):
        endpoint.client.check("m")
