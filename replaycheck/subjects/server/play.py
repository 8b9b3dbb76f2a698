"""One group on one engine: its requests asked cold, warm, split or together, and what came back as a recording.

Scoring a token behind a hit takes a request of its own: the prompt and the answer so far, one new token. So an answer enters
the state as part of the next prompt (prefilled), and the hit of a turn is that of its first request. An engine that can be
made to decode an answer of our choice gets one request a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from replaycheck.compare.record import ArmRecording, HitSeen, ScoredTurn
from replaycheck.compare.top import Entry, TopLogprobs
from replaycheck.schedule.steps import RequestPlan, Schedule
from replaycheck.schema.arm import Arm, Compiler, Kernel

from .cuts import Cuts
from .engine import Ask, Engine, Facts, Reply
from .expect import Expectation, explain
from .http import ServerFault
from .settings import ServerSettings

__all__ = ["Play"]


class Play:
    """A group under way. Its warm arm is played before its split arm, which repeats the cuts that warm's hits made."""

    def __init__(self, engine: Engine, facts: Facts, settings: ServerSettings) -> None:
        self._engine = engine
        self._facts = facts
        self._settings = settings
        self._cuts = Cuts()

    def arm(self, schedule: Schedule) -> ArmRecording:
        """All turns of the group under one arm."""
        arm = schedule.arm
        self._engine.begin(f"{schedule.group}/{arm.name}")
        playing = _Arm(self._engine, self._facts, self._settings, arm, self._cuts)
        for number, plan in enumerate(schedule.requests):
            playing.turn(number, plan)
        return playing.recording()


class _Arm:
    def __init__(self, engine: Engine, facts: Facts, settings: ServerSettings, arm: Arm, cuts: Cuts) -> None:
        self._engine, self._facts, self._settings, self._arm, self._cuts = engine, facts, settings, arm, cuts
        self._warm = arm.compiler is Compiler.WARM
        self._expected = Expectation(facts.policy) if self._warm and facts.policy else None
        self._turns: list[ScoredTurn] = []
        self._hits: list[HitSeen] = []
        self._computed = 0

    def turn(self, number: int, plan: RequestPlan) -> None:
        """Score one turn, as far as the engine's length goes."""
        last = min(plan.end, plan.prompt + self._settings.score)
        if self._facts.length is not None:
            last = min(last, self._facts.length)
        if last <= plan.prompt:
            self._saw(plan, None, None, f"left out: longer than the server's {self._facts.length} tokens")
            return
        if self._warm:
            entries, hit = self._warm_turn(number, plan, last)
        else:
            entries, hit = self._cold_turn(number, plan, last), None
        self._turns.append(_scored(plan, last, entries, hit))

    def _warm_turn(self, number: int, plan: RequestPlan, last: int) -> tuple[list[Entry | None], int | None]:
        entries: list[Entry | None] = []
        hit: int | None = None
        for ask in self._asks(plan, last):
            expected = self._expected.hit(ask.tokens) if self._expected else None
            reply = self._ask([ask])[0]
            if self._expected:
                self._expected.sent(ask.tokens, reply.tokens[: ask.new])
            self._cuts.saw(number, ask.tokens, reply.cached or 0)
            if len(ask.tokens) == plan.prompt:
                hit = reply.cached or None
                self._saw(
                    plan, expected, reply.cached, explain(self._facts.policy, plan.prompt, expected, reply.cached)
                )
            entries += _of(ask, reply)
        return entries, hit

    def _asks(self, plan: RequestPlan, last: int) -> list[Ask]:
        """The requests that score a turn's tokens up to position ``last``."""
        if self._facts.answers:
            answer = plan.tokens[plan.prompt : last]
            return [Ask(plan.tokens[: plan.prompt], len(answer), forced=answer)]
        return [Ask(plan.tokens[:at], scored=plan.tokens[at]) for at in range(plan.prompt, last)]

    def _cold_turn(self, number: int, plan: RequestPlan, last: int) -> list[Entry | None]:
        if self._arm.answer is Kernel.CHUNK:
            self._computed += last - 1
            return list(islice(self._engine.whole(plan.tokens[:last], plan.prompt), last - plan.prompt))
        asks = [replace(ask, cold=True, cuts=self._cuts_of(number, len(ask.tokens))) for ask in self._asks(plan, last)]
        together = self._settings.batch if self._arm.repeat else 0
        parts = _parts(asks, max(1, together))
        return [
            entry
            for some in parts
            for ask, reply in zip(some, self._ask(some), strict=True)
            for entry in _of(ask, reply)
        ]

    def _cuts_of(self, number: int, length: int) -> tuple[int, ...]:
        if self._arm.compiler is Compiler.SPLIT:
            return self._cuts.of(number, length)
        budget = self._arm.policy.budget
        return tuple(range(budget, length, budget)) if budget else ()

    def _ask(self, asks: Sequence[Ask]) -> list[Reply]:
        replies = self._engine.ask(asks)
        if len(replies) != len(asks):
            raise ServerFault(f"{self._facts.name}: {len(asks)} requests, {len(replies)} answers")
        for ask, reply in zip(asks, replies, strict=True):
            if ask.cold and reply.cached:
                raise ServerFault(
                    f"{self._facts.name}: {reply.cached} of {len(ask.tokens)} tokens came from its cache though none was to "
                    "be used, so nothing is cold; choose another --subject-option cold=salt|reset|scoring, or give cold-url"
                )
            self._computed += len(ask.tokens) - (reply.cached or 0)
        return replies

    def _saw(self, plan: RequestPlan, expected: int | None, actual: int | None, why: str) -> None:
        self._hits.append(HitSeen(plan.trace, plan.branch, plan.turn, plan.prompt, expected, actual, why))

    def recording(self) -> ArmRecording:
        return ArmRecording(
            arm=self._arm.name,
            turns=tuple(self._turns),
            restores=(),
            expected_hits=sum(bool(hit.expected) for hit in self._hits),
            proven_hits=sum(bool(hit.actual) for hit in self._hits),
            computed_tokens=self._computed,
            hits=tuple(self._hits),
        )


def _scored(plan: RequestPlan, last: int, entries: Sequence[Entry | None], hit: int | None) -> ScoredTurn:
    """The turn's record; positions that the engine left out at the end are missing."""
    n = last - plan.prompt
    said = TopLogprobs.of([*entries[:n], *[None] * (n - len(entries))])
    return ScoredTurn(
        plan.trace,
        plan.branch,
        plan.turn,
        plan.cluster,
        np.arange(plan.prompt, last, dtype=np.int32),
        np.array(plan.tokens[plan.prompt : last], np.int32),
        np.empty((n, 0), np.float32),
        hit,
        top=said,
    )


def _of(ask: Ask, reply: Reply) -> list[Entry | None]:
    """An entry for each token that was to be scored; those that the engine left out at the end are missing."""
    return [*reply.entries[: ask.new], *[None] * (ask.new - len(reply.entries))]


def _parts(asks: Sequence[Ask], size: int) -> Iterator[Sequence[Ask]]:
    return (asks[at : at + size] for at in range(0, len(asks), size))
