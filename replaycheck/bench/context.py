"""CPU seconds a token at growing context: what the lab takes for a prompt, and for each token decoded after it.

Each step is timed by itself inside one run, so no figure is the difference of two. Lengths take turns, and ratios are
those of one turn. One thread, as a run's workers have: before this module asked for it, a decoded token seemed to take 57 to
104 ms on a busy machine, where it takes 25.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import process_time

from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import work_of
from replaycheck.replay.worker import Work, lab_run, one_thread, planned
from replaycheck.schedule.steps import Row, RowKind, Step
from replaycheck.schema.arm import Compiler
from replaycheck.schema.bench import Figure, Target
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.batch import Result
from replaycheck.subjects.lab.executor import execute
from replaycheck.subjects.lab.pool import Pool
from replaycheck.subjects.lab.state import SequenceState

from .figures import figure, ratios
from .sessions import Shape, group_of

__all__ = ["CONTEXTS", "Cost", "context_cost", "cost_of"]

CONTEXTS = (512, 1024, 2048, 4096)
DECODED = 32
"""Tokens after each prompt; their median is one sample."""
REPEATS = 5
WITHIN = 1.2
"""Wanted: a token at the longest context costs at most so many times one at the shortest."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one run: prefill, a token of the prompt, on average; decode, a token after it, the median."""

    prefill: float
    decode: float


class _Stopwatch:
    """An observer that times rows. A cold arm that runs one session computes one row at a time."""

    def __init__(self) -> None:
        self.rows: list[tuple[Row, float]] = []
        self._begin = 0.0

    def stepped(self, step: Step, pool: Pool) -> None:
        """Nothing to time."""

    def loaded(self, row: Row, state: SequenceState) -> None:
        self._begin = process_time()

    def taken(self, row: Row, result: Result, pool: Pool) -> None:
        self.rows.append((row, process_time() - self._begin))


def context_cost(
    settings: Settings, contexts: Sequence[int] = CONTEXTS, repeats: int = REPEATS
) -> tuple[list[Figure], list[Target]]:
    """Of one cold arm, alone: a prompt of each length, and ``DECODED`` tokens after it."""
    arm = next(arm for arm in settings.arms if arm.compiler is Compiler.COLD)
    work = replace(work_of(settings), arms=(arm,), cells=())
    one_thread()
    cost_of(work, contexts[0])  # compiles
    found = [[cost_of(work, length) for length in contexts] for _ in range(repeats)]
    samples = {
        kind: [[getattr(turn[at], kind) for turn in found] for at in range(len(contexts))]
        for kind in ("prefill", "decode")
    }
    figures = [
        figure(f"lab, context {length:,}", kind, "ms CPU a token", [1e3 * seconds for seconds in mine[at]])
        for at, length in enumerate(contexts)
        for kind, mine in samples.items()
    ]
    return figures, [_target(kind, contexts, mine) for kind, mine in samples.items()]


def _target(kind: str, contexts: Sequence[int], samples: Sequence[Sequence[float]]) -> Target:
    return Target(
        name=f"{kind}: a token at {contexts[-1]:,} over one at {contexts[0]:,}",
        unit="times",
        wanted=WITHIN,
        at_least=False,
        found=median(ratios(samples[-1], samples[0])),
    )


def cost_of(work: Work, length: int) -> Cost:
    """One run of the work's one arm on a session with a prompt of about ``length`` tokens."""
    (arm,) = work.arms
    run = lab_run(work, planned(work, _session(length, 1 + DECODED), arm))
    run.network.reset()
    run.observer = watch = _Stopwatch()
    execute([run])
    prompt = [(row.b - row.a, seconds) for row, seconds in watch.rows if row.kind is RowKind.PREFILL]
    steps = [seconds for row, seconds in watch.rows if row.kind is RowKind.DECODE]
    return Cost(sum(s for _, s in prompt) / sum(tokens for tokens, _ in prompt), median(steps))


def _session(prompt: int, answer: int) -> Group:
    """One request whose prompt has about so many tokens."""
    shape = Shape(turns=1, prompt=prompt - 16, answer=answer)
    return Group.model_validate_json(json.dumps(group_of(0, shape)))
