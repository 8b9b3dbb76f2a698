"""Each prefix cache against a reference that keeps every state, request by request and call by call, several at once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from replaycheck.schema.policy import Policy
from replaycheck.state_probes.policies import POLICIES
from replaycheck.state_probes.walk import ANSWERS, LENGTHS, MOST_RUNNING, CacheWalk

TOKENS = st.sampled_from(LENGTHS)


class CacheMachine(RuleBasedStateMachine):
    """Begin requests on new and old prefixes, let them run in any order, take some off."""

    policy: Policy

    def __init__(self) -> None:
        super().__init__()
        self.walk = CacheWalk(self.policy)

    @precondition(lambda self: len(self.walk.running) < MOST_RUNNING)
    @rule(old=st.integers(0, 99), keep=TOKENS, new=TOKENS, answer=st.sampled_from(ANSWERS))
    def begin(self, old: int, keep: int, new: int, answer: int) -> None:
        self.walk.begin(old, keep, new, answer)

    @precondition(lambda self: self.walk.running)
    @rule(which=st.integers(0, 9), limit=TOKENS | st.just(10**6), steps=st.integers(1, 70))
    def run(self, which: int, limit: int, steps: int) -> None:
        self.walk.run(which, limit, steps)

    @precondition(lambda self: self.walk.running)
    @rule(which=st.integers(0, 9))
    def suspend(self, which: int) -> None:
        self.walk.suspend(which)


@pytest.mark.parametrize("slug", POLICIES)
def test_a_cache_hits_stores_and_evicts_like_its_reference(slug: str) -> None:
    machine = type("Machine", (CacheMachine,), {"policy": POLICIES[slug]})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))
