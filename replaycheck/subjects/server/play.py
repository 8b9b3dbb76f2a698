"""One group on one engine: its requests asked cold, warm, split or beside others, and what came back as a recording.

Scoring a token behind a hit takes a request of its own: the prompt and the answer so far, one new token. So an answer enters
the state as part of the next prompt (prefilled), and the hit of a turn is that of its first request. An engine that can be
made to decode an answer of our choice gets one request a turn.

The first repeat of a cold and of a warm arm is the same with several requests in flight at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from .order import Sent, alone, beside
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
        playing.play(schedule.requests)
        return playing.recording()


class _Arm:
    def __init__(self, engine: Engine, facts: Facts, settings: ServerSettings, arm: Arm, cuts: Cuts) -> None:
        self._engine, self._facts, self._settings, self._arm, self._cuts = engine, facts, settings, arm, cuts
        self._warm = arm.compiler is Compiler.WARM
        # Cuts can be steered for one request at a time alone, so a split arm is never beside others.
        self._together = settings.batch if arm.repeat and arm.compiler is not Compiler.SPLIT else 0
        self._expected = Expectation(facts.policy) if self._warm and facts.policy else None
        self._turns: list[ScoredTurn] = []
        self._hits: dict[int, HitSeen] = {}
        self._proven = self._predicted = self._computed = 0

    def play(self, plans: Sequence[RequestPlan]) -> None:
        """Score all turns, each as far as the engine's length goes."""
        ends = {number: end for number, plan in enumerate(plans) if (end := self._end(plan)) > plan.prompt}
        if self._arm.compiler is Compiler.COLD and self._arm.answer is Kernel.CHUNK:
            said = {number: self._whole(plans[number], end) for number, end in ends.items()}
        else:
            said = self._sent(plans, ends)
        for number, plan in enumerate(plans):
            if number not in ends:
                self._saw(number, plan, None, None, f"left out: longer than the server's {self._facts.length} tokens")
                continue
            hit = (self._hits[number].actual or None) if self._warm else None
            self._turns.append(_scored(plan, ends[number], said[number], hit))

    def _end(self, plan: RequestPlan) -> int:
        """Up to which position a turn is scored."""
        end = min(plan.end, plan.prompt + self._settings.score)
        return end if self._facts.length is None else min(end, self._facts.length)

    def _whole(self, plan: RequestPlan, end: int) -> list[Entry | None]:
        self._computed += end - 1
        return list(islice(self._engine.whole(plan.tokens[:end], plan.prompt), end - plan.prompt))

    def _sent(self, plans: Sequence[RequestPlan], ends: dict[int, int]) -> dict[int, list[Entry | None]]:
        """Entries of each turn, from requests that are sent alone or beside others."""
        asks = {number: self._asks(number, plans[number], end) for number, end in ends.items()}
        parts: Iterable[list[Sent]] = beside(plans, asks, self._together) if self._together else alone(asks)
        found: dict[int, list[Entry | None]] = {number: [] for number in ends}
        for part in parts:
            predicted = (
                self._expected.hits([sent.ask.tokens for sent in part]) if self._expected else [None] * len(part)
            )
            replies = self._ask([sent.ask for sent in part])
            for sent, reply, expected in zip(part, replies, predicted, strict=True):
                found[sent.number] += _of(sent.ask, reply)
                if self._warm:
                    self._warmed(sent, plans[sent.number], reply, expected, len(part))
        return found

    def _asks(self, number: int, plan: RequestPlan, end: int) -> list[Ask]:
        """The requests that score a turn's tokens up to position ``end``."""
        if self._facts.answers:
            answer = plan.tokens[plan.prompt : end]
            asks = [Ask(plan.tokens[: plan.prompt], len(answer), forced=answer)]
        else:
            asks = [Ask(plan.tokens[:at], scored=plan.tokens[at]) for at in range(plan.prompt, end)]
        if self._warm:
            return asks
        return [replace(ask, cold=True, cuts=self._cuts_of(number, len(ask.tokens))) for ask in asks]

    def _warmed(self, sent: Sent, plan: RequestPlan, reply: Reply, expected: int | None, beside: int) -> None:
        """A warm request of ``beside`` in flight is over."""
        if self._expected:
            self._expected.sent(sent.ask.tokens, reply.tokens[: sent.ask.new])
        if not self._together:  # of what ran beside others the cuts aren't known
            self._cuts.saw(sent.number, sent.ask.tokens, reply.cached or 0, reply.cuts)
        if not sent.opens:
            return
        expected = expected if reply.expected is None else reply.expected
        why = reply.why or explain(self._facts.policy, plan.prompt, expected, reply.cached)
        if self._together:
            why += ", beside others" if beside > 1 else ", alone: nothing else could be sent"
        if not self._together or beside > 1:
            self._proven += bool(reply.cached)
            self._predicted += bool(expected)
        self._saw(sent.number, plan, expected, reply.cached, why)

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

    def _saw(self, number: int, plan: RequestPlan, expected: int | None, actual: int | None, why: str) -> None:
        self._hits[number] = HitSeen(plan.trace, plan.branch, plan.turn, plan.prompt, expected, actual, why)

    def recording(self) -> ArmRecording:
        """Hits that count beside others are those of requests that weren't alone."""
        return ArmRecording(
            arm=self._arm.name,
            turns=tuple(self._turns),
            restores=(),
            expected_hits=self._predicted,
            proven_hits=self._proven,
            computed_tokens=self._computed,
            hits=tuple(self._hits[number] for number in sorted(self._hits)),
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
