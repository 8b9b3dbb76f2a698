"""What the one server subject asks of an adapter: facts, a fresh cache, and answers with hits.

An adapter speaks one engine's API, over HTTP or in process. It knows nothing of traces, arms or comparisons. Positions count
tokens from the path's first = 0; log-probabilities are natural and raw (before temperature, penalties and bias).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from replaycheck.compare.top import Entry
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.policy import Policy

__all__ = ["Ask", "Engine", "Facts", "Reply"]


@dataclass(frozen=True)
class Facts:
    """What an engine is and can do.

    Attributes:
        name: of the engine. version: as it says itself, in as much detail as there is; a change in mid-run is an error.
        model: the name by which it serves its model. vocabulary: ids are 0 … vocabulary − 1.
        length: tokens of prompt and answer together, at most; None: it doesn't say.
        policy: what its cache is expected to store and hit; None: not known, then hits are recorded and not predicted.
        pool: dtype of the recurrent states in use, where it can be seen. asked: the one that was asked for.
        hits: whether it reports how many tokens of a prompt were cached. Without that nothing can be proven.
        forced: whether a token of our choice can be scored behind a hit. wholes: whether all of a cold prompt can be.
        answers: whether a whole answer of our choice can be, in one request and as it is decoded.
        cuts: whether prefill can be cut where warm's history was cut. pinned: whether a cold prefill is cut wherever a hit
            would cut it, so that cold is its own split arm.
        no_split: without either, why and what to do about it; "": as for most servers.
        together: whether several requests can be asked at once.
        deterministic: by its own word; None: it doesn't say.
        versions: further packages. settings: what else changes its results. not_seen: what it can't show, a sentence each.
    """

    name: str
    version: str
    model: str
    vocabulary: int
    length: int | None = None
    policy: Policy | None = None
    pool: PoolDtype | None = None
    asked: PoolDtype | None = None
    hits: bool = True
    forced: bool = True
    wholes: bool = False
    answers: bool = False
    cuts: bool = False
    pinned: bool = False
    no_split: str = ""
    together: bool = False
    deterministic: bool | None = None
    semantics: str = "log-softmax of the raw logits"
    versions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    not_seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ask:
    """One request: continue ``tokens`` greedily.

    Attributes:
        new: tokens to generate, whatever their meaning (an end doesn't end it).
        cold: nothing that is cached may be used.
        scored: the token whose log-probability is wanted at the first new position, or None.
        forced: an answer to be decoded and scored as if it had been chosen freely (engines with ``answers`` only).
        cuts: where the prefill has to be cut, by rising position (engines with ``cuts`` only).
    """

    tokens: tuple[int, ...]
    new: int = 1
    cold: bool = False
    scored: int | None = None
    forced: tuple[int, ...] = ()
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reply:
    """The answer to an :class:`Ask`.

    Attributes:
        tokens: generated ids. entries: of each the log-probability of the scored (first) or generated token, and
            those of the best ones; None: nothing was said.
        cached: tokens of the prompt that were restored; None: not reported.
        expected: those that the adapter itself predicted, from a model of the engine's cache; None: it has none.
        why: of the hit, in a few words that many hits share; "": left to the policy.
        cuts: where the state behind the prompt was cut, where the adapter knows more than hits tell; None: it doesn't.
    """

    tokens: tuple[int, ...]
    entries: tuple[Entry | None, ...]
    cached: int | None
    expected: int | None = None
    why: str = ""
    cuts: tuple[int, ...] | None = None


class Engine(Protocol):
    """An adapter. Every method may raise :class:`replaycheck.errors.EngineEnvironmentError`."""

    def facts(self) -> Facts:
        """Who it is. Asked again in mid-run, to notice another version."""
        ...

    def begin(self, space: str) -> None:
        """From here on nothing that was cached under another name can be hit, and this name is empty."""
        ...

    def ask(self, asks: Sequence[Ask]) -> list[Reply]:
        """Answers in the order of ``asks``; more than one are on their way at once."""
        ...

    def whole(self, tokens: Sequence[int], first: int) -> list[Entry | None]:
        """Entries of the tokens at positions first … of a cold prompt, all scored in one prefill."""
        ...
