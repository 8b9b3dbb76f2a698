"""A prefix cache beside a reference that keeps every state: requests begin, run and are taken off, in any order.

The state machine of the tests and the seeded walk of ``probe state`` drive this one class. What must agree: the state that
a prompt hits, the states that each call leaves behind, which of them are stored, and what is evicted for them.

With a pipeline the results of a call are seen when the next one, of any request, was made; at the end of a request that is
one token too far, which nothing may come of.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import Job, Piece, PrefixCache, Stored, Take
from replaycheck.schedule.prefix.origin import Prefixes
from replaycheck.schedule.steps import Checkpoint, Part
from replaycheck.schema.policy import Policy

from .oracle import Call, Oracle, Tokens, left_behind

__all__ = ["ANSWERS", "LENGTHS", "MOST_RUNNING", "CacheWalk", "Disagreement", "walk"]

LENGTHS = (1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 130, 191, 192, 193)
"""Round the chunk, the page, the block and the convolution's window: k·C − 1, k·C, k·C + 1, and short ones."""
ANSWERS = (0, 1, 2, 40, 64, 65, 130)
MOST_RUNNING = 4


class Disagreement(AssertionError):
    """The cache isn't its reference; the text says where."""


@dataclass
class Running:
    """A request on both sides; ``late``: what the double buffer holds for the end."""

    job: Job
    tokens: Tokens
    covered: int
    late: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Seen:
    """A call whose results weren't seen yet, and what it must leave behind."""

    one: Running
    piece: Piece
    takes: list[Take]
    wanted: list[int]


class CacheWalk:
    """One cache and its reference. ``cache``: one to look at instead of the policy's own."""

    def __init__(self, policy: Policy, cache: PrefixCache | None = None) -> None:
        self.policy = policy
        self.cache = prefix_cache(policy) if cache is None else cache
        self.oracle = Oracle(policy)
        self.running: list[Running] = []
        self._prefixes = Prefixes()
        self._paths: list[Tokens] = [()]
        self._count = 0
        self._held: dict[str, Tokens] = {}
        self._flights: list[_Seen] = []

    def begin(self, old: int, keep: int, new: int, answer: int) -> None:
        """A prompt that shares the first ``keep`` tokens of an old path; its hit must be the reference's."""
        shared = self._paths[old % len(self._paths)][:keep]
        prompt = shared + tuple(1000 * self._count + i for i in range(new))
        tokens = prompt + tuple(1000 * self._count + 500 + i for i in range(answer + 1))
        self._count += 1
        self._paths.append(tokens)
        numbers = self._prefixes.of([("token", token) for token in tokens])
        job = Job(self._count, numbers, len(prompt), len(tokens), goal=len(prompt))
        wanted = self.oracle.hit(tokens, job.goal)
        covered = self.oracle.covered(tokens, job.goal) if self.policy.cache.startswith("sglang") else 0
        found = self._tokens(self.cache.admit(job))
        _same(f"hit of a prompt of {len(prompt)} tokens", len(found), len(wanted))
        _same(f"tokens of the hit of a prompt of {len(prompt)} tokens", found, wanted)
        self.oracle.use(job.index, wanted)
        job.position = len(wanted)
        self.running.append(Running(job, tokens, covered))

    def run(self, which: int, limit: int, steps: int) -> None:
        """Some calls of one request: pieces of at most ``limit`` tokens, then decode steps."""
        one = self.running[which % len(self.running)]
        for _ in range(steps):
            job = one.job
            decoding = job.position >= job.goal
            b = job.position + 1 if decoding else self.cache.cut(job, min(limit, self.policy.budget or limit))
            if job.position == job.computed_end or b == job.position:
                break
            self._call(one, Piece(job.position, b, Part.ANSWER if decoding else Part.TAIL))
        if one.job.position == one.job.computed_end:
            self._run_past(one)
            self._finish(one)

    def _run_past(self, one: Running) -> None:
        """With a pipeline: the end isn't known before one more token was launched; what that takes is never seen."""
        if self.policy.pipeline > 1:
            self.cache.takes(one.job, Piece(one.job.computed_end, one.job.end, Part.ANSWER))
        while self._flights:
            self._see(self._flights.pop(0))

    def suspend(self, which: int) -> None:
        """Taken off the engine for good: it stores nothing and holds nothing any more."""
        one = self.running.pop(which % len(self.running))
        while self._flights:
            self._see(self._flights.pop(0))
        self.cache.suspend(one.job)
        self.oracle.release(one.job.index)

    def _call(self, one: Running, piece: Piece) -> None:
        job = one.job
        call = Call(piece.a, piece.b, job.prompt, job.goal, job.computed_end, piece.decoding)
        wanted = left_behind(self.policy, call, one.covered)
        takes = self.cache.takes(job, piece)
        if self.policy.cache == "reference":  # it doesn't take what is stored already
            wanted = [p for p in wanted if one.tokens[:p] not in self.oracle.states]
        _same(
            f"states left behind by a call from {piece.a} to {piece.b}", [t.checkpoint.position for t in takes], wanted
        )
        job.position = piece.b
        self._flights.append(_Seen(one, piece, takes, wanted))
        if len(self._flights) == self.policy.pipeline:
            self._see(self._flights.pop(0))

    def _see(self, seen: _Seen) -> None:
        """The results of a call: what of it is stored."""
        one, piece, wanted = seen.one, seen.piece, seen.wanted
        stored = self.cache.keep(one.job, piece, seen.takes)
        if self.policy.cache == "sglang-extra-buffer" and piece.decoding:
            one.late = wanted or one.late
            _same(f"states stored while decoding token {piece.b}", len(stored), 0)
        else:
            self._check(one, wanted, stored)

    def _finish(self, one: Running) -> None:
        self._check(one, one.late[-1:], self.cache.finish(one.job))
        self.cache.release(one.job)
        self.oracle.release(one.job.index)
        self.running.remove(one)

    def _check(self, one: Running, wanted: list[int], stored: list[Stored]) -> None:
        """Each state is stored, and evicts, as in the reference."""
        got = {each.take.checkpoint.position: self._tokens(each.evicts) for each in stored}
        for each in stored:
            self._held[each.take.checkpoint.name] = one.tokens[: each.take.checkpoint.position]
        for position in wanted:
            kept, gone = self.oracle.store(one.tokens[:position])
            _same(f"whether the state after {position} tokens is stored", position in got, kept)
            if kept:
                _same(f"what is evicted for the state after {position} tokens", got[position], gone)
                self._hold(one, position)

    def _hold(self, one: Running, position: int) -> None:
        """A request reads what it stored last: in the tree always, on blocks where it runs on from that block."""
        block = getattr(self.policy, "block", None)
        if self.policy.cache.startswith("sglang") or (block and position % block == 0):
            self.oracle.held[one.job.index] = one.tokens[:position]

    def _tokens(self, checkpoint: Checkpoint | None) -> Tokens:
        return self._held[checkpoint.name] if checkpoint else ()


def _same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Disagreement(f"{what}: {_short(got)}, and should be {_short(wanted)}")


def _short(value: object) -> str:
    return f"one of {len(value)} tokens" if isinstance(value, tuple) and value else str(value)


def walk(one: CacheWalk, steps: int, seed: int) -> int:
    """Drive a walk at random, the same for the same seed; the number of requests.

    Raises:
        Disagreement: the text begins with the step.
    """
    draw = random.Random(seed)
    count = 0
    for step in range(steps):
        try:
            count += _step(one, draw)
        except Disagreement as error:
            raise Disagreement(f"step {step}: {error}") from None
    return count


def _step(one: CacheWalk, draw: random.Random) -> int:
    if not one.running or (len(one.running) < MOST_RUNNING and draw.random() < 0.35):
        one.begin(draw.randrange(100), draw.choice(LENGTHS), draw.choice(LENGTHS), draw.choice(ANSWERS))
        return 1
    if draw.random() < 0.1:
        one.suspend(draw.randrange(10))
    else:
        one.run(draw.randrange(10), draw.choice((*LENGTHS, 10**6)), draw.randint(1, 70))
    return 0
