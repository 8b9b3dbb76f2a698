"""Rows of the table of exact operations on random groups: what ``probe state`` shows on groups by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.trace import Group
from replaycheck.state_probes import snapshots
from replaycheck.state_probes.lab import difference
from replaycheck.state_probes.play import play
from replaycheck.state_probes.policies import POLICIES, arm_of
from replaycheck.state_probes.subject import Subject
from replaycheck.subjects.lab.executor import ArmRun, execute
from replaycheck.subjects.lab.pool import Pool
from replaycheck_kernels.grid import chunk_starts
from tests.schedule.prefix.groups import busy_groups


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject()


@settings(max_examples=20, deadline=None)
@given(busy_groups(), st.sampled_from(sorted(POLICIES)), st.sampled_from(PoolDtype))
def test_every_copy_store_and_window_of_any_plan_has_its_bytes(busy: Group, policy: str, pool: PoolDtype) -> None:
    schedule = compile_schedule(busy, arm_of(Compiler.WARM, POLICIES[policy], pool=pool))
    assert play(schedule, Pool, "cpu", "fork").problems == {}


@settings(max_examples=8, deadline=None)
@given(busy_groups(), st.sampled_from(sorted(POLICIES)), st.sampled_from(PoolDtype))
def test_warm_has_the_bits_of_split_rounded(subject: Subject, busy: Group, policy: str, pool: PoolDtype) -> None:
    warm = arm_of(Compiler.WARM, POLICIES[policy], pool=pool)
    plans = [
        compile_schedule(busy, warm),
        compile_schedule(busy, warm.model_copy(update={"compiler": Compiler.SPLIT_ROUNDED})),
    ]
    subject.network.reset()
    assert difference(*execute([ArmRun(plan, subject.network) for plan in plans])) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 260), st.sampled_from(snapshots.FORMS), st.sampled_from(PoolDtype), st.data())
def test_a_snapshot_at_any_boundary_is_one_cast_of_the_accumulator(
    subject: Subject, length: int, form: str, pool: PoolDtype, data: st.DataObject
) -> None:
    x = snapshots._inputs(subject, (3, length))
    cuts = list(enumerate([*chunk_starts(length, 0, subject.recipe)[1:], length], 1))
    chunk, cut = data.draw(st.sampled_from(cuts))
    assert snapshots._wrong(subject, form, pool, x, chunk, cut) == 0
