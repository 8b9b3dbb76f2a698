"""A suite file (TOML): traces, the matrix of arms, the effects to compare, and the gate files that judge.

The shipped presets are such files. Every entry of ``matrix`` is crossed out into arms; a cell is made for each effect.
"""

from __future__ import annotations

from itertools import product
from typing import Literal

from pydantic import Field, model_validator

from .arm import Answers, Arm, Cell, Compiler, Effect, Kernel, PoolDtype
from .base import Record
from .policy import CheckpointPolicy, Policy

#: The two compilers that each effect compares, reference first.
COMPILERS: dict[Effect, tuple[Compiler, Compiler]] = {
    Effect.GRID: (Compiler.COLD, Compiler.SPLIT),
    Effect.STATE: (Compiler.SPLIT, Compiler.WARM),
    Effect.EXACT: (Compiler.SPLIT_ROUNDED, Compiler.WARM),
    Effect.TOTAL: (Compiler.COLD, Compiler.WARM),
}


class Matrix(Record):
    """Values that are crossed into arms."""

    history: tuple[Kernel, ...] = Field(min_length=1)
    tail: tuple[Kernel, ...] = Field(min_length=1)
    answers: tuple[Answers, ...] = Field(min_length=1)
    pool: tuple[PoolDtype, ...] = Field(min_length=1)
    policy: Policy
    effects: tuple[Effect, ...] = tuple(Effect)

    @model_validator(mode="after")
    def _check(self) -> Matrix:
        """Only a state that was stored while or after decoding keeps an answer as it was decoded."""
        for answers in self.answers:
            if (answers is Answers.DECODED) is not self.policy.keeps_answers:
                raise ValueError(f"answers {answers.value!r} needs {self._wanted(answers)}; give each its own matrix")
        return self

    def _wanted(self, answers: Answers) -> str:
        decoded = answers is Answers.DECODED
        if isinstance(self.policy, CheckpointPolicy):
            return f"a policy {'with' if decoded else 'without'} turn_end"
        return (
            f"a policy that {'stores' if decoded else 'never stores'} states of answers; {self.policy.slug!r} isn't one"
        )


class Suite(Record):
    """What a run does."""

    schema_: Literal["replaycheck.suite/1"] = Field(alias="schema")
    name: str
    traces: tuple[str, ...] = Field(min_length=1, description="paths relative to the file, or suite:NAME")
    gates: tuple[str, ...] = ("exact",)
    recipe: str = "sglang"
    matrix: tuple[Matrix, ...] = Field(min_length=1)


def expand(suite: Suite) -> tuple[tuple[Arm, ...], tuple[Cell, ...]]:
    """Cross the matrix into arms and cells, each once, in a stable order.

    The live state of ``split`` is fp32 whatever the pool, so there is one split arm for all pool dtypes; a grid cell
    compares it with the cold arm whose pool is fp32, too.
    """
    arms: dict[str, Arm] = {}
    cells: dict[str, Cell] = {}
    for matrix in suite.matrix:
        for history, tail, answers, pool, effect in product(
            matrix.history, matrix.tail, matrix.answers, matrix.pool, matrix.effects
        ):
            pools = {
                Compiler.SPLIT: PoolDtype.FP32,
                Compiler.COLD: PoolDtype.FP32 if effect is Effect.GRID else pool,
            }
            pair = [
                Arm(
                    compiler=compiler,
                    history=history,
                    tail=tail,
                    answers=answers,
                    pool=pools.get(compiler, pool),
                    policy=matrix.policy,
                    recipe=suite.recipe,
                )
                for compiler in COMPILERS[effect]
            ]
            cell = Cell(effect=effect, reference=pair[0].name, candidate=pair[1].name)
            arms.update((arm.name, arm) for arm in pair)
            cells[cell.name] = cell
    return tuple(arms.values()), tuple(cells.values())
