"""Recordings made up for tests: two branches of one trace and one of another, three turns each.

Warm and split-rounded agree in every bit, split differs by the cast, cold by a little noise. Tests change one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from replaycheck.compare.casts import cast
from replaycheck.compare.record import ArmRecording, ScoredTurn, StateAt, WrittenState
from replaycheck.schema.arm import (
    Answers,
    Arm,
    Cell,
    CheckpointPolicy,
    Compiler,
    Effect,
    Kernel,
    PoolDtype,
)
from replaycheck.schema.suite import COMPILERS

VOCABULARY, HEADS, SIZE = 32, 2, 16
LAYERS = (0, 2)
TURNS, SCORED = 3, 5
BRANCHES = {"a": (0, 1), "b": (0,)}


def arm(compiler: Compiler, pool: PoolDtype = PoolDtype.FP32) -> Arm:
    return Arm(
        compiler=compiler,
        history=Kernel.CHUNK,
        tail=Kernel.CHUNK,
        answers=Answers.DECODED,
        pool=pool,
        policy=CheckpointPolicy(turn_end=True),
        recipe="exact",
    )


def arms_and_cells(pool: PoolDtype = PoolDtype.FP32) -> tuple[tuple[Arm, ...], tuple[Cell, ...]]:
    pools = {Compiler.SPLIT: PoolDtype.FP32}
    arms = {compiler: arm(compiler, pools.get(compiler, pool)) for compiler in Compiler}
    cells = [
        Cell(effect=effect, reference=arms[pair[0]].name, candidate=arms[pair[1]].name)
        for effect, pair in COMPILERS.items()
        if pair[0] is not pair[1]  # the others compare arms that differ in something else
    ]
    return tuple(arms.values()), tuple(cells)


def position(turn: int) -> int:
    """Tokens before the first scored one of a turn; the state that a turn restores ends 4 tokens earlier."""
    return 10 + 20 * turn


def restored_at(turn: int) -> int:
    return position(turn) - 4


def turns(warm: bool, change: Callable[[np.ndarray], np.ndarray] = lambda logits: logits) -> tuple[ScoredTurn, ...]:
    """The first turn of a branch restores nothing; ``change`` alters the logits of the others."""
    found = []
    for trace, branches in BRANCHES.items():
        for branch in branches:
            rng = np.random.default_rng([ord(trace), branch])
            for turn in range(TURNS):
                logits = (3 * rng.normal(size=(SCORED, VOCABULARY))).astype(np.float32)
                found.append(
                    ScoredTurn(
                        trace=trace,
                        branch=branch,
                        turn=turn,
                        cluster=trace,
                        positions=np.arange(SCORED, dtype=np.int32) + position(turn),
                        tokens=rng.integers(0, VOCABULARY, SCORED).astype(np.int32),
                        logits=change(logits) if turn else logits,
                        restore=restored_at(turn) if warm and turn else None,
                    )
                )
    return tuple(found)


def states(pool: PoolDtype, stored: bool) -> tuple[StateAt, ...]:
    """The live fp32 states at every restore, or what a pool gives back of them."""
    found = []
    for trace, branches in BRANCHES.items():
        for branch in branches:
            for turn in range(1, TURNS):
                rng = np.random.default_rng([ord(trace), branch, turn])
                live = rng.normal(size=(len(LAYERS), HEADS, SIZE, SIZE)).astype(np.float32)
                found.append(
                    StateAt(
                        trace=trace,
                        branch=branch,
                        turn=turn,
                        position=restored_at(turn),
                        label="final",
                        dtype=str(pool),
                        layers=LAYERS,
                        temporal=cast(live, pool) if stored else live,
                        conv=rng.integers(0, 255, (len(LAYERS), 6)).astype(np.uint8),
                    )
                )
    return tuple(found)


def noise(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(logits: np.ndarray) -> np.ndarray:
        return (logits + scale * np.random.default_rng(7).normal(size=logits.shape)).astype(np.float32)

    return change


def recording(arm: Arm) -> ArmRecording:
    warm = arm.compiler is Compiler.WARM
    stores = arm.compiler in (Compiler.WARM, Compiler.SPLIT_ROUNDED)
    rounded = stores and arm.pool is not PoolDtype.FP32
    change = noise(1e-2) if arm.compiler is Compiler.COLD else noise(1e-3) if rounded else noise(0)
    hits = sum(len(branches) for branches in BRANCHES.values()) * (TURNS - 1) if warm else 0
    share = np.full((len(LAYERS), HEADS), 1.0 if arm.pool is PoolDtype.BF16 else 2e-5)
    return ArmRecording(
        arm=arm.name,
        turns=turns(warm, change),
        restores=() if arm.compiler is Compiler.COLD else states(arm.pool, stores),
        written=(WrittenState("final", LAYERS, share, arm.pool is PoolDtype.BF16),) if stores else (),
        kernels={"history": frozenset({"chunk"}), "answer": frozenset({"recurrent"})},
        expected_hits=hits,
        proven_hits=hits,
        computed_tokens=100,
    )


def recordings(arms: tuple[Arm, ...]) -> dict[str, ArmRecording]:
    return {arm.name: recording(arm) for arm in arms}


def in_warm(found: dict[str, ArmRecording], **changes: object) -> dict[str, ArmRecording]:
    """The recordings with fields of the warm arm changed."""
    name = next(name for name in found if name.startswith("warm/"))
    return found | {name: replace(found[name], **changes)}  # type: ignore[arg-type]


def louder(found: dict[str, ArmRecording]) -> dict[str, ArmRecording]:
    """Warm with other logits after its restores: no longer equal to split-rounded."""
    return in_warm(found, turns=turns(True, noise(0.5)))


def effect(cells: tuple[Cell, ...], wanted: Effect) -> Cell:
    return next(cell for cell in cells if cell.effect is wanted)
