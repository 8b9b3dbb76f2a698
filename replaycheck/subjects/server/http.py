"""The one way to a server: time-outs, bounded retries and bodies, TLS verified, no redirect to another place, keys unseen.

A key comes from the environment (``REPLAYCHECK_API_KEY``, else ``OPENAI_API_KEY``), goes into one header, and appears in no
message, file or repr. Whatever goes wrong is an :class:`EngineEnvironmentError` that names the request.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from replaycheck.errors import EngineEnvironmentError, UsageError

if TYPE_CHECKING:
    import httpx

__all__ = ["Client", "Limits", "Refused", "ServerFault", "base_url"]

KEYS = ("REPLAYCHECK_API_KEY", "OPENAI_API_KEY")

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that another try may mend; only asked again where asking twice changes nothing."""

_SHOWN = 300
"""Characters of a server's error text that are repeated."""


@dataclass(frozen=True)
class Limits:
    """Bounds of every exchange.

    Attributes:
        connect, read: seconds; read is the longest silence, so it covers a long prefill.
        whole: seconds for one answer, however busily it trickles.
        body: bytes of an answer. 20 alternatives at 1,000 positions are about 2 MB; a whole vocabulary of 160,000 at one
            position is 8 MB.
        retries: further tries. backoff: seconds before the first of them, doubled each time.
    """

    connect: float = 10.0
    read: float = 300.0
    whole: float = 900.0
    body: int = 64 * 2**20
    retries: int = 3
    backoff: float = 0.5


class ServerFault(EngineEnvironmentError):
    """The server died, stalled, or said what can't be read."""


class Refused(ServerFault):
    """The server answered with an error of its own. status: of HTTP; text: what it said, shortened."""

    def __init__(self, message: str, status: int, text: str) -> None:
        super().__init__(message)
        self.status = status
        self.text = text


def base_url(url: str) -> str:
    """``url`` without a trailing slash and ``/v1``. Raises :class:`UsageError` for what isn't a plain http address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {_safe(url)!r}: give http://HOST:PORT or https://HOST")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"--url {_safe(url)!r}: leave user, password, query and fragment out; a key goes into {KEYS[0]}"
        )
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _safe(url: str) -> str:
    """A URL without anything that could be a secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Client:
    """Requests to one server, one at a time or from several threads.

    Args:
        url: see :func:`base_url`. limits: bounds of each exchange.
        transport: httpx's, for tests. sleep: waits between tries.

    Attributes:
        server: the ``server`` header of the last answer; None: it had none.
    """

    def __init__(
        self,
        url: str,
        limits: Limits | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = base_url(url)
        self.limits = limits or Limits()
        self.server: str | None = None
        self._sleep = sleep
        self._httpx = _httpx()
        timeout = self._httpx.Timeout(
            self.limits.read, connect=self.limits.connect, write=self.limits.connect, pool=self.limits.read
        )
        # trust_env: a proxy from the environment could see and change everything, and .netrc could add another key.
        self._client = self._httpx.Client(
            timeout=timeout,
            headers=_headers(),
            # A company's own certificates come in the way that OpenSSL knows; certifi's are the default.
            verify=ssl.create_default_context() if os.environ.get("SSL_CERT_FILE") else True,
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        """The JSON of ``GET path``; asked again when that may help."""
        return self._ask("GET", path, None, None, idempotent=True)

    def text(self, path: str) -> str:
        """The text of ``GET path``."""
        return self._raw("GET", path, None, None, idempotent=True).decode("utf-8", "replace")

    def post(
        self,
        path: str,
        body: object | None = None,
        *,
        params: Mapping[str, str] | None = None,
        idempotent: bool = False,
    ) -> Any:
        """The JSON of ``POST path``.

        Args:
            body: sent as JSON. params: the query.
            idempotent: asking twice changes nothing. A completion fills a cache, so asked twice it hits: it isn't.

        Raises:
            Refused: an error status. ServerFault: no answer, or none that can be read.
        """
        return self._ask("POST", path, body, params, idempotent)

    def _ask(
        self, method: str, path: str, body: object | None, params: Mapping[str, str] | None, idempotent: bool
    ) -> Any:
        raw = self._raw(method, path, body, params, idempotent)
        if not raw.strip():
            return None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ServerFault(
                f"{self._named(method, path)}: the answer isn't JSON ({error}); is it the right URL?"
            ) from None

    def _raw(
        self, method: str, path: str, body: object | None, params: Mapping[str, str] | None, idempotent: bool
    ) -> bytes:
        tries = 1 + (self.limits.retries if idempotent else 0)
        for number in range(tries):
            try:
                return self._once(method, path, body, params)
            except ServerFault as error:
                hopeless = isinstance(error, Refused) and error.status not in _AGAIN
                if hopeless or number + 1 == tries:
                    raise
            except self._httpx.ConnectError as error:
                # Nothing was sent, so asking again is always allowed; but only so often.
                if number + 1 == tries:
                    raise self._unreachable(method, path, error) from None
            self._sleep(self.limits.backoff * 2**number)
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, method: str, path: str, body: object | None, params: Mapping[str, str] | None) -> bytes:
        named = self._named(method, path)
        ends = time.monotonic() + self.limits.whole
        try:
            with self._client.stream(
                method, self.url + path, json=body, params=None if params is None else dict(params)
            ) as response:
                raw = self._body(response, named, ends)
        except self._httpx.ConnectError:
            raise
        except self._httpx.TimeoutException:
            raise ServerFault(
                f"{named}: no answer for {self.limits.read:g} s; does it stall? if not, give --subject-option timeout=S"
            ) from None
        except self._httpx.HTTPError as error:
            raise ServerFault(
                f"{named}: the connection broke ({type(error).__name__}: {error}); did it crash?"
            ) from None
        self._check(response, raw, named)
        self.server = response.headers.get("server")
        return raw

    def _body(self, response: httpx.Response, named: str, ends: float) -> bytes:
        found = bytearray()
        for part in response.iter_bytes():
            found += part
            if len(found) > self.limits.body:
                raise ServerFault(f"{named}: the answer is over {self.limits.body:,} bytes; ask for fewer alternatives")
            if time.monotonic() > ends:
                raise ServerFault(f"{named}: the answer isn't complete after {self.limits.whole:g} s")
        return bytes(found)

    def _check(self, response: httpx.Response, raw: bytes, named: str) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        text = raw.decode("utf-8", "replace")[:_SHOWN]
        if 300 <= status < 400:
            where = _safe(response.headers.get("location", "nowhere"))
            raise ServerFault(
                f"{named}: sends us to {where!r}; that isn't followed, give that server's --url if it is meant"
            )
        if status in (401, 403):
            raise Refused(f"{named}: {status}, not allowed; put the key into {KEYS[0]}", status, text)
        raise Refused(f"{named}: error {status}: {text}", status, text)

    def _unreachable(self, method: str, path: str, error: Exception) -> ServerFault:
        return ServerFault(f"{self._named(method, path)}: can't connect ({error}); is the server up, is --url right?")

    def _named(self, method: str, path: str) -> str:
        return f"{method} {self.url}{path}"


def _headers() -> dict[str, str]:
    key = next((os.environ[name] for name in KEYS if os.environ.get(name)), None)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise EngineEnvironmentError(
            "servers need httpx, which isn't installed; pip install 'replaycheck[engines]'"
        ) from None
    return httpx
