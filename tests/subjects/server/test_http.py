"""The one way to a server: bounded in time and size, asked again only where that is harmless, with keys that nobody sees."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from replaycheck.errors import UsageError
from replaycheck.subjects.server.http import Client, Limits, Refused, ServerFault, base_url

URL = "http://127.0.0.1:9"
SECRET = "sk-very-secret"


def client(
    answer: Callable[[httpx.Request], httpx.Response], limits: Limits | None = None
) -> tuple[Client, list[float]]:
    waits: list[float] = []
    return Client(URL, limits, httpx.MockTransport(answer), waits.append), waits


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("https://h/v1/", "https://h"),
        ("https://h/api/v1", "https://h/api"),
    ],
)
def test_urls_are_cut_to_their_base(given: str, kept: str) -> None:
    assert base_url(given) == kept


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("h:1", "--url 'h:1': give http://HOST:PORT or https://HOST"),
        ("ftp://h", "--url 'ftp://h': give http://HOST:PORT or https://HOST"),
        ("http://", "--url 'http://': give http://HOST:PORT or https://HOST"),
        ("http://user:pw@h", "--url 'http://h': leave user, password, query and fragment out"),
        ("http://h?key=pw", "--url 'http://h': leave user, password, query and fragment out"),
    ],
)
def test_other_urls_are_refused_and_secrets_in_them_not_repeated(given: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        base_url(given)
    assert "pw" not in str(caught.value)


def test_what_changes_nothing_is_asked_again_with_longer_waits() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(503 if len(asked) < 3 else 200, json={"ok": True})

    mine, waits = client(answer)
    assert mine.get("/version") == {"ok": True}
    assert waits == [0.5, 1.0]


def test_tries_are_bounded() -> None:
    mine, waits = client(lambda request: httpx.Response(503, text="busy"))
    with pytest.raises(Refused, match=r"GET http://127.0.0.1:9/version: error 503: busy"):
        mine.get("/version")
    assert len(waits) == 3


def test_a_completion_is_never_asked_again() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(503)

    with pytest.raises(Refused, match="error 503"):
        client(answer)[0].post("/v1/completions", {})
    assert len(asked) == 1


def test_what_cannot_get_better_is_not_asked_again() -> None:
    mine, waits = client(lambda request: httpx.Response(404, text="nothing here"))
    with pytest.raises(Refused, match="404"):
        mine.get("/version")
    assert not waits


def test_a_server_that_is_not_there_is_named() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ServerFault, match=r"can't connect .* is --url right"):
        client(answer)[0].post("/v1/completions", {})


def test_silence_is_named() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    with pytest.raises(ServerFault, match="no answer for 300 s"):
        client(answer)[0].post("/v1/completions", {})


def test_bodies_are_bounded() -> None:
    mine, _ = client(lambda request: httpx.Response(200, content=b" " * 2000), Limits(body=1000))
    with pytest.raises(ServerFault, match="over 1,000 bytes"):
        mine.get("/version")


def test_a_redirect_is_not_followed_and_its_secrets_not_repeated() -> None:
    mine, _ = client(lambda request: httpx.Response(307, headers={"location": "http://u:pw@elsewhere/x?key=pw"}))
    with pytest.raises(ServerFault, match="sends us to 'http://elsewhere/x'") as caught:
        mine.post("/v1/completions", {})
    assert "pw" not in str(caught.value)


def test_other_text_than_json_is_named() -> None:
    mine, _ = client(lambda request: httpx.Response(200, text="<html>"))
    with pytest.raises(ServerFault, match="isn't JSON"):
        mine.get("/version")


@pytest.mark.parametrize("name", ["REPLAYCHECK_API_KEY", "OPENAI_API_KEY"])
def test_a_key_is_sent_and_shown_nowhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(401, text="no")

    for each in ("REPLAYCHECK_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, SECRET)
    mine, _ = client(answer)
    with pytest.raises(Refused, match="REPLAYCHECK_API_KEY") as caught:
        mine.post("/v1/completions", {})
    assert seen == [f"Bearer {SECRET}"]
    assert SECRET not in str(caught.value) + repr(mine) + repr(caught.value)


def test_certificates_are_verified_and_the_environment_adds_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}
    real = httpx.Client

    def remember(**settings: object) -> httpx.Client:
        made.update(settings)
        return real(**settings)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx, "Client", remember)
    Client(URL)
    assert made["verify"] is not False
    assert made["trust_env"] is False
    assert made["follow_redirects"] is False
