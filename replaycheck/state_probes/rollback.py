"""Answers decoded in speculation windows, through the whole model: each method against the reference that it must equal.

With an fp32 pool, methods that replay or copy a state give the bits of plain decoding. In a reduced pool, and for RecoverSSM
whose rebuild is another sum, the reference is live decoding rounded at the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replaycheck.errors import InternalError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Arm, CheckpointPolicy, Compiler, PoolDtype, Rollback
from replaycheck.subjects.lab.executor import ArmRun, execute

from .found import Check, Found, broken, exact
from .groups import WINDOWS
from .lab import difference
from .policies import arm_of
from .subject import Subject

__all__ = ["checks"]

POLICY = CheckpointPolicy(every=64, turn_end=True)
REQUIRED = "fp32 pool: plain decoding's bits; reduced pool: those of live decoding rounded at the same windows"
LAGGING = "fp32 pool: plain decoding's bits; reduced pool: those of live decoding rounded where the ring is folded"
RING = 16
"""Tokens, as SGLang's decode ring has; a state is up to 15 of them behind."""
RECOVERED = "the bits of live decoding with the same rebuild, rounded at the same windows"


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    methods = [
        Check(f"lab-rollback-{method}", "lab", RECOVERED if method is Rollback.RECOVER else REQUIRED, _look(method))
        for method in Rollback
    ]
    return [*methods, Check("lab-rollback-replay-lag", "lab", LAGGING, _look(Rollback.REPLAY, ring=RING))]


def _pairs(method: Rollback, ring: int | None) -> Iterator[tuple[Arm, Arm]]:
    """Warm, and what it must equal. vLLM's methods store no fp16 states. ``ring``: of one that lags."""
    fp16 = method in (Rollback.COPY, Rollback.REPLAY)
    for pool in (PoolDtype.FP32, PoolDtype.BF16, *([PoolDtype.FP16] if fp16 else [])):
        warm = arm_of(Compiler.WARM, POLICY, pool=pool).model_copy(
            update={"rollback": method, "ring": ring, "ring_lag": ring is not None}
        )
        yield warm, warm.model_copy(update={"compiler": Compiler.SPLIT_ROUNDED})
        if pool is PoolDtype.FP32 and method is not Rollback.RECOVER:
            yield warm, arm_of(Compiler.SPLIT, POLICY)


def _look(method: Rollback, ring: int | None = None) -> Callable[[Subject], Found]:
    def look(subject: Subject) -> Found:
        pairs = list(_pairs(method, ring))
        plans = [
            plan
            for warm, reference in pairs
            for plan in (subject.spoil(compile_schedule(WINDOWS, warm)), compile_schedule(WINDOWS, reference))
        ]
        subject.network.reset()
        try:
            found = execute([ArmRun(plan, subject.network) for plan in plans])
        except InternalError as error:
            return broken("a window can't be undone", str(error))
        for (warm, reference), mine, theirs in zip(pairs, found[::2], found[1::2], strict=True):
            wrong = difference(mine, theirs)
            if wrong:
                return broken(
                    "a rollback changes what follows", f"{warm.pool} pool against {reference.compiler}, {wrong}"
                )
        positions = sum(len(turn.positions) for recording in found[::2] for turn in recording.turns)
        return exact(f"{positions} positions under {len(pairs)} pairs of arms, the same bits", positions=positions)

    return look
