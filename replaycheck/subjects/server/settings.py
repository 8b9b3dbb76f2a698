"""What ``--subject-option NAME=VALUE`` may say about a server, read once and with errors that name what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.schema.arm import PoolDtype
from replaycheck.subjects.protocol import SubjectOptions

from .http import Limits

__all__ = ["KNOWN", "ServerSettings"]

T = TypeVar("T")

KNOWN: Mapping[str, str] = MappingProxyType(
    {
        "score": "answer tokens that are scored in each turn, from the first",
        "top": "best tokens that are asked for at each position; -1: all (vLLM: --max-logprobs -1)",
        "block": "tokens of a cache block; found out by asking if it isn't given",
        "retain": "which block ends keep their state: reachable, all, or a number of tokens",
        "page": "tokens of a page of SGLang's cache",
        "track-interval": "tokens between SGLang's snapshots while decoding",
        "radix": "SGLang's strategy: no-buffer or extra-buffer",
        "capacity": "states that fit the cache",
        "grid": "block: the server's prefill chunk is its cache block, so that cold is cut wherever a hit would cut it",
        "cold": "how a request is kept from hitting: salt, reset, or scoring (vLLM's prompt_logprobs)",
        "cold-url": "another server of the same settings with its cache off, which answers the cold requests",
        "batch": "requests in flight at once in a second cold arm (noise) and a second warm one; 0 or 1: neither",
        "pool": "dtype of the recurrent states that was asked for: fp32, bf16 or fp16",
        "tokens": "how traces become prompts: ids (as they are), folded (into the range), text (by the tokenizer)",
        "vocabulary": "token ids of the model, if the server doesn't say",
        "length": "tokens of prompt and answer together, if the server doesn't say",
        "timeout": "seconds of silence after which the server counts as stalled",
        "budget": "tokens of a prefill step in the arm that measures the grid effect, in process; 0: none",
    }
)


@dataclass(frozen=True)
class ServerSettings:
    """The options of a server subject, with defaults; None: not given."""

    score: int = 16
    top: int = 20
    block: int | None = None
    retain: str = "reachable"
    page: int = 1
    track_interval: int = 256
    radix: str = "no-buffer"
    capacity: int | None = None
    pinned: bool = False
    cold: str | None = None
    cold_url: str | None = None
    batch: int = 0
    pool: PoolDtype | None = None
    tokens: str | None = None
    vocabulary: int | None = None
    length: int | None = None
    timeout: float = 300.0
    budget: int = 0

    @classmethod
    def of(cls, options: SubjectOptions, more: Mapping[str, str] = MappingProxyType({})) -> ServerSettings:
        """Read and check. ``more``: options that one adapter adds, which it reads itself.

        Raises:
            UsageError: an option that doesn't exist, or a value that it can't have.
        """
        for name, _ in options.settings:
            if name not in KNOWN and name not in more:
                known = sorted({*KNOWN, *more})
                raise UsageError(
                    f"--subject-option {name}: unknown{did_you_mean(name, known)}; choose {choices(known)}"
                )
        read = _Reader(options)
        return cls(
            score=read.integer("score", 16, 1),
            top=read.integer("top", 20, -1) or 1,
            block=read.maybe("block", 1),
            retain=read.text("retain", "reachable"),
            page=read.integer("page", 1, 1),
            track_interval=read.integer("track-interval", 256, 1),
            radix=read.one_of("radix", ("no-buffer", "extra-buffer")) or "no-buffer",
            capacity=read.maybe("capacity", 1),
            pinned=read.one_of("grid", ("block",)) is not None,
            cold=read.one_of("cold", ("salt", "reset", "scoring")),
            cold_url=options.setting("cold-url"),
            batch=read.integer("batch", 0, 0),
            pool=read.parsed("pool", PoolDtype, "fp32, bf16 or fp16"),
            tokens=read.one_of("tokens", ("ids", "folded", "text")),
            vocabulary=read.maybe("vocabulary", 2),
            length=read.maybe("length", 2),
            timeout=read.parsed("timeout", _seconds, "seconds above 0") or 300.0,
            budget=read.integer("budget", 0, 0),
        )

    @property
    def limits(self) -> Limits:
        """Bounds of the exchanges with the server."""
        return Limits(read=self.timeout, whole=3 * self.timeout)


@dataclass(frozen=True)
class _Reader:
    options: SubjectOptions

    def text(self, name: str, default: str) -> str:
        return self.options.setting(name) or default

    def parsed(self, name: str, parse: Callable[[str], T], allowed: str) -> T | None:
        given = self.options.setting(name)
        if given is None:
            return None
        try:
            return parse(given)
        except ValueError:
            raise UsageError(f"--subject-option {name}={given}: give {allowed}") from None

    def maybe(self, name: str, least: int) -> int | None:
        def parse(text: str) -> int:
            value = int(text)
            if value < least:
                raise ValueError
            return value

        return self.parsed(name, parse, f"a whole number from {least}")

    def integer(self, name: str, default: int, least: int) -> int:
        given = self.maybe(name, least)
        return default if given is None else given

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str | None:
        def parse(text: str) -> str:
            if text not in allowed:
                raise ValueError
            return text

        return self.parsed(name, parse, choices(allowed))


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value
