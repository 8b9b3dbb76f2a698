"""What a sweep was asked to try: intervals, pool dtypes, activations; as a suite's matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.schema.arm import Activation, Answers, Arm, Cell, Effect, Kernel, PoolDtype
from replaycheck.schema.policy import CHUNK, CheckpointPolicy
from replaycheck.schema.suite import Matrix, Suite, expand

__all__ = ["END", "Choice", "Point", "choice"]

END = "end"
EFFECTS = (Effect.GRID, Effect.STATE, Effect.TOTAL, Effect.ACTIVATION)
LONGEST = 1 << 20
"""Tokens between checkpoints, at most: longer than any prompt that the shipped models take."""

E = TypeVar("E", PoolDtype, Activation)


@dataclass(frozen=True)
class Point:
    """One row of the sweep: the cells that its three effects are read from."""

    interval: str
    pool: PoolDtype
    activation: Activation
    policy: CheckpointPolicy
    warm: str
    cells: dict[Effect, str]


@dataclass(frozen=True)
class Choice:
    """Each tuple without repetitions, in the order given."""

    intervals: tuple[str, ...]
    pools: tuple[PoolDtype, ...]
    activations: tuple[Activation, ...]
    answers: Answers

    def policy(self, interval: str) -> CheckpointPolicy:
        """An interval counts from the start of each computation of a prompt; ``end`` is one checkpoint, at its end."""
        decoded = self.answers is Answers.DECODED
        if interval == END:
            return CheckpointPolicy(prompt_end=True, turn_end=decoded)
        return CheckpointPolicy(every=int(interval), turn_end=decoded)

    def arms_and_cells(self, suite: Suite) -> tuple[tuple[Arm, ...], tuple[Cell, ...]]:
        """Of all points. What moving the activation does isn't a matter of the interval: one cell a pool is enough."""
        arms, cells = expand(suite.model_copy(update={"matrix": tuple(self._matrices())}))
        extra = {cell.name for cell in cells if cell.effect is Effect.ACTIVATION}
        extra -= {self._cell(Effect.ACTIVATION, self.intervals[0], pool, Activation.OUTSIDE) for pool in self.pools}
        kept = tuple(cell for cell in cells if cell.name not in extra)
        needed = {name for cell in kept for name in (cell.reference, cell.candidate)}
        return tuple(arm for arm in arms if arm.name in needed), kept

    def points(self) -> list[Point]:
        """All rows: intervals, then pools, then activations."""
        return [
            self._point(interval, pool, activation)
            for activation in self.activations
            for interval in self.intervals
            for pool in self.pools
        ]

    def activation_cell(self, pool: PoolDtype) -> str:
        return self._cell(Effect.ACTIVATION, self.intervals[0], pool, Activation.OUTSIDE)

    def _matrices(self) -> Iterable[Matrix]:
        for activation in self.activations:
            for interval in self.intervals:
                yield Matrix(
                    history=(Kernel.CHUNK,),
                    tail=(Kernel.CHUNK,),
                    answers=(self.answers,),
                    pool=self.pools,
                    policy=self.policy(interval),
                    effects=EFFECTS,
                    activation=activation,
                )

    def _point(self, interval: str, pool: PoolDtype, activation: Activation) -> Point:
        cells = {
            effect: self._cell(effect, interval, PoolDtype.FP32 if effect is Effect.GRID else pool, activation)
            for effect in (Effect.GRID, Effect.STATE, Effect.TOTAL)
        }
        warm = "/".join(["warm", *cells[Effect.STATE].split("/")[1:]])
        return Point(interval, pool, activation, self.policy(interval), warm, cells)

    def _cell(self, effect: Effect, interval: str, pool: PoolDtype, activation: Activation) -> str:
        parts = [effect, "chunk-chunk", self.answers, self.policy(interval).slug, pool]
        return "/".join([*parts, *([f"activated-{activation}"] if activation is Activation.OUTSIDE else [])])


def choice(intervals: str, pools: str, activations: str, answers: str) -> Choice:
    """Parse comma-separated lists.

    Raises:
        UsageError: an interval that isn't a positive multiple of the chunk or ``end``; an unknown dtype or activation.
    """
    return Choice(
        _unique(_interval(word) for word in _words("--checkpoint-interval", intervals)),
        _named("--pool", pools, PoolDtype),
        _named("--activation", activations, Activation),
        Answers(answers),
    )


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise UsageError(f"{option} {text!r} has an empty entry; give values joined by commas")
    return words


def _interval(word: str) -> str:
    if word == END:
        return word
    if not word.isascii() or not word.isdigit() or int(word) % CHUNK or not 0 < int(word) <= LONGEST:
        raise UsageError(
            f"--checkpoint-interval {word!r}: states inside a prompt lie on the chunk's grid; give a multiple of {CHUNK} "
            f"up to {LONGEST}, or {END!r} for one checkpoint at the prompt's end"
        )
    return str(int(word))


def _named(option: str, text: str, kind: type[E]) -> tuple[E, ...]:
    allowed = {str(each): each for each in kind}
    words = _words(option, text)
    for word in words:
        if word not in allowed:
            raise UsageError(
                f"{option} {word!r} is unknown{did_you_mean(word, allowed)}; "
                f"give one or several of {choices(allowed)}, joined by commas"
            )
    return tuple(allowed[word] for word in _unique(words))


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    found: Sequence[str] = list(dict.fromkeys(words))
    return tuple(found)
