"""Whether it is still the same engine, where all that can be asked is a plain OpenAI-compatible endpoint.

Two things may tell. Each completion has ``model``, maybe a ``system_fingerprint``, and a ``server`` header. Between groups
``/v1/models`` has an entry of the model, and ``/version`` may be there. What is said at the start is recorded; another
value, or none where there was one, is another engine, and what was recorded is of two. ``created`` is only a sign where it
stands still: vLLM and llama.cpp's server write the time of the request there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .http import Client, Refused, ServerFault

__all__ = ["WatchedClient"]

COMPLETIONS = "/v1/completions"

ENTRY = ("id", "owned_by", "root", "max_model_len")
"""Of the model's entry, what doesn't change by itself (vLLM draws new ids of permissions for each answer)."""

CLOCK = 2.0
"""Seconds: ``created`` in whole ones, read with a delay. One that moved with the clock is the time of the request."""


@dataclass(frozen=True)
class _Listed:
    """What the endpoint says beside completions. at: when it was asked, on a clock that only moves forward."""

    entry: Mapping[str, str]
    created: float | None
    at: float


class WatchedClient(Client):
    """A client that remembers who answered first.

    ``clock``: seconds, for tests.
    """

    def __init__(self, *args: Any, clock: Callable[[], float] = time.monotonic, **more: Any) -> None:
        super().__init__(*args, **more)
        self._clock = clock
        self._answers: dict[str, str] | None = None
        self._listed: _Listed | None = None

    def post(self, path: str, body: object | None = None, **more: Any) -> Any:
        """As :meth:`Client.post`. Raises :class:`ServerFault` if another engine answered a completion."""
        answer = super().post(path, body, **more)
        if path == COMPLETIONS and isinstance(answer, Mapping):
            said = self._said(answer)
            if self._answers is None:
                self._answers = said
            self._refuse_changes(self._answers, said)
        return answer

    def _said(self, answer: Mapping[str, Any]) -> dict[str, str]:
        """Who an answer says that it is from."""
        named = {name: answer.get(name) for name in ("model", "system_fingerprint")} | {"server header": self.server}
        return {name: value for name, value in named.items() if isinstance(value, str) and value}

    def check(self, model: str) -> None:
        """Ask what is asked between groups, and hold it against the first time.

        Raises :class:`ServerFault` if it changed.
        """
        now = self._look(model)
        if self._listed is None:
            self._listed = now
            return
        before = self._listed
        self._refuse_changes(before.entry, now.entry)
        if before.created is None or now.created is None:
            return
        moved = now.created - before.created
        if moved and abs(moved - (now.at - before.at)) > CLOCK:
            self._refuse_changes({"created": f"{before.created:.0f}"}, {"created": f"{now.created:.0f}"})

    def _look(self, model: str) -> _Listed:
        listed = self._maybe("/v1/models")
        data = listed.get("data") if isinstance(listed, Mapping) else None
        mine = next((each for each in data or () if isinstance(each, Mapping) and each.get("id") == model), {})
        entry = {f"{name} in /v1/models": str(mine[name]) for name in ENTRY if mine.get(name) is not None}
        version = self._maybe("/version")
        if isinstance(version, Mapping) and "version" in version:
            entry["version"] = str(version["version"])
        created = mine.get("created")
        number = isinstance(created, int | float) and not isinstance(created, bool)
        return _Listed(entry, float(created) if number else None, self._clock())  # type: ignore[arg-type]

    def _maybe(self, path: str) -> Any:
        """Nothing where the endpoint has no such page."""
        try:
            return self.get(path)
        except Refused as error:
            if error.status in (404, 405, 501):
                return None
            raise

    def _refuse_changes(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        for name, old in before.items():
            if now.get(name) != old:
                raise ServerFault(
                    f"{self.url}: its {name} changed in mid-run, from {old!r} to {now.get(name)!r}; what was replayed since "
                    "the last stored group is dropped; start a new run on one engine"
                )

    def watched(self) -> tuple[str, ...]:
        """By what another engine would be noticed."""
        listed = self._listed
        created = ("created in /v1/models, if it stands still",) if listed and listed.created is not None else ()
        return (*(self._answers or {}), *(listed.entry if listed else ()), *created)

    def not_seen(self) -> str:
        """What a run says about it."""
        seen = self.watched()
        # A model keeps its name over any change of what serves it.
        by = [name for name in seen if name not in ("model", "id in /v1/models", "owned_by in /v1/models")]
        if not by:
            return (
                "whether another engine answers in mid-run: it says no system_fingerprint, no server header and no version "
                "that could change"
            )
        return f"what runs behind the endpoint; another engine in mid-run would be noticed by its {', '.join(by)} alone"
