"""A suite file (TOML): traces, the matrix of arms, the effects to compare, and the gate files that judge.

The shipped presets are such files. Every entry of ``matrix`` is crossed out into arms; a cell is made for each effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from .arm import Activation, Answers, Arm, Cell, Compiler, Effect, Experiment, Kernel, Padding, PoolDtype, Rollback
from .base import Record
from .policy import CheckpointPolicy, Policy

#: The two compilers that each effect of a suite compares, reference first. ``together`` is none of a suite: what is in
#: flight at once is the subject's to say.
COMPILERS: dict[Effect, tuple[Compiler, Compiler]] = {
    Effect.GRID: (Compiler.COLD, Compiler.SPLIT),
    Effect.STATE: (Compiler.SPLIT, Compiler.WARM),
    Effect.EXACT: (Compiler.SPLIT_ROUNDED, Compiler.WARM),
    Effect.TOTAL: (Compiler.COLD, Compiler.WARM),
    Effect.PARALLEL: (Compiler.WARM, Compiler.WARM),
    Effect.ACTIVATION: (Compiler.COLD, Compiler.COLD),
}


class Matrix(Record):
    """Values that are crossed into arms."""

    history: tuple[Kernel, ...] = Field(min_length=1)
    tail: tuple[Kernel, ...] = Field(min_length=1)
    answers: tuple[Answers, ...] = Field(min_length=1)
    pool: tuple[PoolDtype, ...] = Field(min_length=1)
    policy: Policy
    effects: tuple[Effect, ...] = tuple(COMPILERS)
    rollback: tuple[Rollback, ...] = Field(
        default=(), description="how speculation windows are undone; empty: token by token"
    )
    ring: int | None = Field(default=None, ge=1, description="tokens in the ring of rollback replay; null: one window")
    ring_lag: bool = Field(default=False, description="the ring is folded when it is full or its state is used")
    tensor_parallel: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1,), min_length=1, description="ranks that the heads are split over; 1 makes the others' reference"
    )

    activation: Activation = Field(
        default=Activation.INSIDE, description="where prefill activates beta and decay; outside adds its effect's cells"
    )
    padding: tuple[Padding, ...] = Field(
        default=(), description="how passes of warm arms are padded; empty: not at all"
    )

    @model_validator(mode="after")
    def _check(self) -> Matrix:
        """Only a state that was stored while or after decoding keeps an answer as it was decoded."""
        if Effect.TOGETHER in self.effects:
            raise ValueError("effect 'together' needs --subject-option batch=N of a server, and no suite; leave it out")
        for answers in self.answers:
            if (answers is Answers.DECODED) is not self.policy.keeps_answers:
                raise ValueError(f"answers {answers.value!r} needs {self._wanted(answers)}; give each its own matrix")
        if self.ring_lag and self.ring is None:
            raise ValueError("ring_lag needs a ring of so many tokens, of at least a window; give ring")
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
    experiments: tuple[Experiment, ...] = Field(
        default=("forced",),
        description="forced: all arms are given the trace's answers; free: each continues its own, too",
    )
    matrix: tuple[Matrix, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Suite:
        if "forced" not in self.experiments or len(set(self.experiments)) != len(self.experiments):
            raise ValueError('experiments is ["forced"] or ["forced", "free"]: most gates read the forced one')
        return self


def expand(suite: Suite) -> tuple[tuple[Arm, ...], tuple[Cell, ...]]:
    """Cross the matrix into arms and cells, each once, in a stable order.

    The live state of ``split`` is fp32 whatever the pool, so there is one split arm for all pool dtypes; a grid cell
    compares it with the cold arm whose pool is fp32, too.

    With a rollback method, cold and split decode token by token. A state cell of RecoverSSM is the exception: its split
    arm recovers as well, since a verify and a rebuild are other kernels than the one that decodes.

    Both arms of a cell have the same tensor-parallel degree. A parallel cell is the exception: its reference has one rank.
    The reference of an activation cell activates inside.
    """
    arms: dict[str, Arm] = {}
    cells: dict[str, Cell] = {}
    for matrix in suite.matrix:
        for point in _points(matrix):
            pair = _pair(matrix, point, suite.recipe)
            cell = Cell(effect=point.effect, reference=pair[0].name, candidate=pair[1].name)
            arms.update((arm.name, arm) for arm in pair)
            cells[cell.name] = cell
    return tuple(arms.values()), tuple(cells.values())


class _Point(NamedTuple):
    """One combination of a matrix."""

    history: Kernel
    tail: Kernel
    answers: Answers
    pool: PoolDtype
    effect: Effect
    rollback: Rollback | None
    degree: int
    padding: Padding | None


def _points(matrix: Matrix) -> Iterator[_Point]:
    """The combinations whose effect has a reference: one rank for several, activation inside for outside."""
    crossed = product(
        matrix.history,
        matrix.tail,
        matrix.answers,
        matrix.pool,
        matrix.effects,
        matrix.rollback or (None,),
        matrix.tensor_parallel,
        matrix.padding or (None,),
    )
    for point in map(_Point._make, crossed):
        alone = point.effect is Effect.PARALLEL and (point.degree == 1 or 1 not in matrix.tensor_parallel)
        inside = point.effect is Effect.ACTIVATION and matrix.activation is Activation.INSIDE
        if not (alone or inside):
            yield point


def _pair(matrix: Matrix, point: _Point, recipe: str) -> tuple[Arm, Arm]:
    """Reference and candidate."""
    one, other = COMPILERS[point.effect]
    degree = 1 if point.effect is Effect.PARALLEL else point.degree
    activation = Activation.INSIDE if point.effect is Effect.ACTIVATION else matrix.activation
    return (
        _arm(matrix, point, recipe, one, degree, activation),
        _arm(matrix, point, recipe, other, point.degree, matrix.activation),
    )


def _arm(matrix: Matrix, point: _Point, recipe: str, compiler: Compiler, degree: int, activation: Activation) -> Arm:
    cold = PoolDtype.FP32 if point.effect is Effect.GRID else point.pool
    undone = _rollback(point.rollback, compiler, point.effect)
    return Arm(
        compiler=compiler,
        history=point.history,
        tail=point.tail,
        answers=point.answers,
        pool={Compiler.SPLIT: PoolDtype.FP32, Compiler.COLD: cold}.get(compiler, point.pool),
        policy=matrix.policy,
        recipe=recipe,
        rollback=undone,
        ring=matrix.ring if undone is Rollback.REPLAY else None,
        ring_lag=matrix.ring_lag and undone is Rollback.REPLAY,
        tensor_parallel=degree,
        activation=activation,
        padding=point.padding if compiler is Compiler.WARM else None,
    )


def _rollback(wanted: Rollback | None, compiler: Compiler, effect: Effect) -> Rollback | None:
    """What an arm of a cell does after a verify; None: it decodes token by token."""
    if compiler is Compiler.COLD:
        return None
    if compiler is Compiler.SPLIT and not (effect is Effect.STATE and wanted is Rollback.RECOVER):
        return None
    return wanted
