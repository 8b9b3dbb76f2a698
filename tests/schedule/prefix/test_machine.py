"""Each prefix cache against a reference that keeps every state, request by request and call by call, several at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from replaycheck.schedule.prefix.find import prefix_cache
from replaycheck.schedule.prefix.job import Job, Piece, Stored
from replaycheck.schedule.prefix.origin import Prefixes
from replaycheck.schedule.steps import Checkpoint, Part
from replaycheck.schema.policy import Policy
from tests.schedule.prefix.oracle import Call, Oracle, Tokens, left_behind
from tests.schedule.prefix.policies import POLICIES

#: Round the chunk, the page, the block and the conv window: k·C − 1, k·C, k·C + 1, and short ones.
LENGTHS = st.sampled_from([1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 130, 191, 192, 193])


@dataclass
class Running:
    """A request on both sides; ``late``: what the double buffer holds for the end."""

    job: Job
    tokens: Tokens
    covered: int
    late: list[int] = field(default_factory=list)


class CacheMachine(RuleBasedStateMachine):
    """Begin requests on new and old prefixes, let them run in any order, take some off."""

    policy: Policy

    def __init__(self) -> None:
        super().__init__()
        self.cache, self.oracle = prefix_cache(self.policy), Oracle(self.policy)
        self.prefixes = Prefixes()
        self.paths: list[Tokens] = [()]
        self.running: list[Running] = []
        self.count = 0
        self.held: dict[str, Tokens] = {}

    @precondition(lambda self: len(self.running) < 4)
    @rule(old=st.integers(0, 99), keep=LENGTHS, new=LENGTHS, answer=st.sampled_from([0, 1, 2, 40, 64, 65, 130]))
    def begin(self, old: int, keep: int, new: int, answer: int) -> None:
        """A prompt that shares the first tokens of an old path; its hit must be the reference's."""
        shared = self.paths[old % len(self.paths)][:keep]
        prompt = shared + tuple(1000 * self.count + i for i in range(new))
        tokens = prompt + tuple(1000 * self.count + 500 + i for i in range(answer + 1))
        self.count += 1
        self.paths.append(tokens)
        numbers = self.prefixes.of([("token", token) for token in tokens])
        job = Job(self.count, numbers, len(prompt), len(tokens), goal=len(prompt))
        wanted = self.oracle.hit(tokens, job.goal)
        covered = self.oracle.covered(tokens, job.goal) if self.policy.cache.startswith("sglang") else 0
        found = self.cache.admit(job)
        assert self._tokens(found) == wanted
        self.oracle.use(job.index, wanted)
        job.position = len(wanted)
        self.running.append(Running(job, tokens, covered))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9), limit=LENGTHS | st.just(10**6), steps=st.integers(1, 70))
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
            self._finish(one)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def suspend(self, which: int) -> None:
        """Taken off the engine for good: it stores nothing and holds nothing any more."""
        one = self.running.pop(which % len(self.running))
        self.cache.suspend(one.job)
        self.oracle.release(one.job.index)

    def _call(self, one: Running, piece: Piece) -> None:
        job = one.job
        call = Call(piece.a, piece.b, job.prompt, job.goal, job.computed_end, piece.decoding)
        wanted = left_behind(self.policy, call, one.covered)
        takes = self.cache.takes(job, piece)
        late = self.policy.cache == "sglang-extra-buffer" and piece.decoding
        if self.policy.cache == "reference":  # it doesn't take what is stored already
            wanted = [p for p in wanted if one.tokens[:p] not in self.oracle.states]
        assert [take.checkpoint.position for take in takes] == wanted
        stored = self.cache.keep(job, piece, takes)
        job.position = piece.b
        if late:
            one.late = wanted or one.late
            assert stored == []
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
            self.held[each.take.checkpoint.name] = one.tokens[: each.take.checkpoint.position]
        for position in wanted:
            kept, gone = self.oracle.store(one.job.index, one.tokens[:position])
            assert (position in got) is kept
            if kept:
                assert got[position] == gone
                self._hold(one, position)

    def _hold(self, one: Running, position: int) -> None:
        """A request reads what it stored last: in the tree always, on blocks where it runs on from that block."""
        block = getattr(self.policy, "block", None)
        if self.policy.cache.startswith("sglang") or (block and position % block == 0):
            self.oracle.held[one.job.index] = one.tokens[:position]

    def _tokens(self, checkpoint: Checkpoint | None) -> Tokens:
        return self.held[checkpoint.name] if checkpoint else ()


@pytest.mark.parametrize("slug", POLICIES)
def test_a_cache_hits_stores_and_evicts_like_its_reference(slug: str) -> None:
    machine = type("Machine", (CacheMachine,), {"policy": POLICIES[slug]})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))
