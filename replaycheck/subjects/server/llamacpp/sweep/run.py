"""The sweep: tiny architectures × axes on the real server, one server at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.errors import EngineEnvironmentError
from replaycheck.model.gguf_tiny import write_tiny
from replaycheck.say import Say
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.launch import LlamaServer, require
from replaycheck.subjects.server.llamacpp.options import ServerOptions, Value
from replaycheck.subjects.server.llamacpp.wire import Wire
from replaycheck.traces import vocabulary

from .axes import Axis
from .judge import Judged, Verdict, explained, judge, worst, wrong_texts
from .moves import Move, behind_shift, moves
from .play import Said, warm
from .reference import Asked, Reference, answers, measure

__all__ = ["Outcome", "sweep"]

_DIFFER = (Verdict.FAULT, Verdict.APPROXIMATE)


@dataclass(frozen=True)
class Outcome:
    """One architecture under one axis.

    Attributes:
        noise: of the reference, nat; repeat: cold against cold. moves: each that was judged.
        why: what the server said if it crashed or refused.
    """

    architecture: str
    axis: str
    verdict: Verdict
    noise: float
    repeat: float
    moves: tuple[Judged, ...] = ()
    why: str = ""


def sweep(
    architectures: Sequence[str], axes: Sequence[Axis], seed: int = 0, say: Say = lambda text: None
) -> Iterator[Outcome]:
    """Outcomes, architecture by architecture.

    Raises:
        EngineEnvironmentError: xllamacpp or gguf isn't installed.
    """
    require("xllamacpp")
    with TemporaryDirectory(prefix="replaycheck-") as folder:
        for name in architectures:
            bench = _Bench(name, write_tiny(Path(folder), name, seed), Path(folder), seed)
            for axis in axes:
                outcome = bench.outcome(axis)
                say(f"{name}, {axis.name}: {outcome.verdict}")
                yield outcome


class _Bench:
    """One architecture. References are measured once for all axes that share their options."""

    def __init__(self, name: str, model: Path, folder: Path, seed: int) -> None:
        self._name, self._model, self._folder, self._seed = name, model, folder, seed
        self._references: dict[tuple[tuple[str, Value], ...], Reference] = {}

    def outcome(self, axis: Axis) -> Outcome:
        played = _moves(axis, self._seed)
        try:
            reference = self._reference(axis)
        except EngineEnvironmentError as error:
            return Outcome(self._name, axis.name, Verdict.REFUSED, nan, nan, why=str(error))
        server: LlamaServer | None = None
        try:
            with LlamaServer(self._options(axis)) as server:
                wire = Wire(Client(server.url), vocabulary.SIZE, "openai" if axis.route == "openai" else "native")
                said = warm(wire, played, axis.fields, axis.pinned)
        except EngineEnvironmentError as error:
            verdict = Verdict.REFUSED if server is None else Verdict.CRASHED
            why = " | ".join([str(error), *(server.errors[-2:] if server else ())])
            return Outcome(self._name, axis.name, verdict, reference.noise, reference.repeat, why=why)
        judged = self._judged(axis, reference, [each for each in said if each.move.compared])
        return Outcome(self._name, axis.name, worst(judged), reference.noise, reference.repeat, judged)

    def _judged(self, axis: Axis, reference: Reference, said: list[Said]) -> tuple[Judged, ...]:
        """Each move; of those that differ, the text that was answered instead, if it is one of the likely ones."""
        found = [judge(each, reference, bool(axis.approximate)) for each in said]
        wrong = [each for each, one in zip(said, found, strict=True) if one.verdict in _DIFFER]
        asked = [(text, each.move.answer) for each in wrong for text in wrong_texts(each).values()]
        if not asked:
            return tuple(found)
        texts = answers(self._model, axis.shared, asked, vocabulary.SIZE)
        return tuple(
            explained(one, each, texts, reference.noise) if one.verdict in _DIFFER else one
            for each, one in zip(said, found, strict=True)
        )

    def _options(self, axis: Axis) -> ServerOptions:
        return ServerOptions(self._model, {**axis.options, "slot-save-path": f"{self._folder}/"})

    def _reference(self, axis: Axis) -> Reference:
        key = tuple(sorted(axis.shared.items()))
        if key not in self._references:
            asked = [one for each in (*moves(self._seed), *behind_shift(self._seed)) for one in _asked(each)]
            self._references[key] = measure(self._model, axis.shared, asked, vocabulary.SIZE)
        return self._references[key]


def _moves(axis: Axis, seed: int) -> tuple[Move, ...]:
    return (*moves(seed), *(behind_shift(seed) if axis.options.get("context-shift") else ()))


def _asked(move: Move) -> Iterator[Asked]:
    """What the reference has to answer for a move."""
    if move.compared:
        yield move.prompt, move.answer
    if move.beside is not None:
        yield from _asked(move.beside)
