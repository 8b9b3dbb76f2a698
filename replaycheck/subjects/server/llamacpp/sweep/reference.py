"""The uncached answers to every prompt of the sweep, twice and in other legitimate splits: coldA, coldB, and noise.

The reference is a server of its own with the options that change how any prompt is computed. Its noise is the largest
difference between whole prompts and (a) the same with another micro-batch, (b) the same with the last tokens run one at a
time, as decoding does: flash attention on the CPU takes another path for single tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.options import ServerOptions, Value
from replaycheck.subjects.server.llamacpp.wire import Wire

from .play import Logprobs, Tokens, cold, decoded, largest

__all__ = ["Asked", "Reference", "answers", "measure"]

Asked = tuple[Tokens, Tokens]
"""Prompt and forced answer."""

EVERY = 4
"""Of the prompts, one in so many is asked again and in other splits."""

DECODED = 40
"""Prompt tokens that are run one at a time: about as many as lie behind a hit."""

_UBATCH, _OTHER = 512, 48
"""The server's default, and one that cuts every prompt of the sweep in several."""


@dataclass(frozen=True)
class Reference:
    """cold: by prompt and answer. repeat: largest difference of a second time, nat. noise: of other splits."""

    cold: Mapping[Asked, Logprobs]
    repeat: float
    noise: float


def measure(model: Path, options: Mapping[str, Value], asked: Iterable[Asked], vocabulary: int) -> Reference:
    """Ask everything cold, one server after the other."""
    each = tuple(dict.fromkeys(asked))
    some = each[::EVERY]
    with _wire(model, options, vocabulary) as wire:
        first = {one: cold(wire, *one) for one in each}
        again = {one: cold(wire, *one) for one in some}
        single = {one: decoded(wire, *one, DECODED) for one in some}
    smaller = _OTHER if options.get("ubatch-size", _UBATCH) != _OTHER else _OTHER // 2
    with _wire(model, {**options, "ubatch-size": smaller}, vocabulary) as wire:
        other = {one: cold(wire, *one) for one in some}
    return Reference(
        first,
        largest([(first[one], again[one]) for one in some]),
        largest([(first[one], split[one]) for one in some for split in (single, other)]),
    )


def answers(
    model: Path, options: Mapping[str, Value], asked: Iterable[Asked], vocabulary: int
) -> dict[Asked, Logprobs]:
    """Further uncached answers of a reference."""
    with _wire(model, options, vocabulary) as wire:
        return {one: cold(wire, *one) for one in dict.fromkeys(asked)}


@contextmanager
def _wire(model: Path, options: Mapping[str, Value], vocabulary: int) -> Iterator[Wire]:
    with LlamaServer(ServerOptions(model, options)) as server:
        yield Wire(Client(server.url), vocabulary)
