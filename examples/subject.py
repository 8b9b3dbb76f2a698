"""A subject of your own: a toy engine in 60 lines. Try it:

replaycheck subject check examples.subject:factory
replaycheck run --subject examples.subject:factory
"""

from collections.abc import Sequence

import numpy as np

from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.schedule.steps import RequestPlan, Schedule
from replaycheck.schema.arm import Compiler
from replaycheck.subjects.protocol import Description

VOCABULARY, SIZE = 144, 16


class ToyEngine:
    """A recurrent state and a cache of it, keyed by the tokens that it covers."""

    def __init__(self) -> None:
        draws = np.random.default_rng(1)
        self.embedding, self.out = draws.normal(size=(VOCABULARY, SIZE)), draws.normal(size=(VOCABULARY, SIZE))
        self.cache: dict[tuple[int, ...], np.ndarray] = {}

    def run(self, state: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
        for token in tokens:
            state = 0.9 * state + self.embedding[token]
        return state

    def logits(self, state: np.ndarray) -> np.ndarray:
        return (self.out @ np.tanh(state)).astype(np.float32)


class ToySubject:
    def describe(self) -> Description:
        # No policy: the suite decides what is stored and restored. No split arm: those cells are listed as not checked.
        return Description(name="toy", digest="toy-1", vocabulary=VOCABULARY, deterministic=True, parallel=True)

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        return [self.recording(schedule) for schedule in schedules]

    def recording(self, schedule: Schedule) -> ArmRecording:
        engine, warm = ToyEngine(), schedule.arm.compiler is Compiler.WARM
        turns = tuple(self.turn(engine, plan, warm) for plan in schedule.requests)
        hits = sum(turn.restore is not None for turn in turns)  # the engine's own count, not the plan's
        return ArmRecording(schedule.arm.name, turns, (), expected_hits=schedule.expected_hits, proven_hits=hits)

    def turn(self, engine: ToyEngine, plan: RequestPlan, warm: bool) -> ScoredTurn:
        start = plan.start if warm and tuple(plan.tokens[: plan.start]) in engine.cache else 0
        state = engine.cache[tuple(plan.tokens[:start])] if start else np.zeros(SIZE)
        stores, logits = {each.position for each in plan.creates}, []
        for at in range(start, plan.end):
            if at in stores:
                engine.cache[tuple(plan.tokens[:at])] = state
            if at >= plan.prompt:
                logits.append(engine.logits(state))
            state = engine.run(state, plan.tokens[at : at + 1])
        positions = np.arange(plan.prompt, plan.end, dtype=np.int32)
        tokens = np.array(plan.tokens[plan.prompt : plan.end], np.int32)
        key = (plan.trace, plan.branch, plan.turn, plan.cluster)
        return ScoredTurn(*key, positions, tokens, np.array(logits), start or None)


def factory() -> ToySubject:
    return ToySubject()
