"""A ring with a lag, as plans: when it is folded, what is refused, and a flush that is skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from replaycheck.errors import UsageError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.steps import Compute, Lag, Row, Schedule
from replaycheck.schema.arm import Arm, Compiler, PoolDtype, Rollback
from replaycheck.schema.policy import Policy, SglangPolicy
from replaycheck.schema.trace import Group, Preemption
from replaycheck.state_probes.groups import chain, windowed
from replaycheck.state_probes.policies import PIPELINED
from tests.schedule.prefix.groups import busy_groups
from tests.schedule.speculation.groups import TURN, spec_arm
from tests.schedule.trees import rows

NO_BUFFER = SglangPolicy(cache="sglang-no-buffer")
DOUBLE = SglangPolicy(cache="sglang-extra-buffer", track_interval=64)
BOTH = (Compiler.WARM, Compiler.SPLIT_ROUNDED)


def lagging(compiler: Compiler, ring: int, policy: Policy = TURN, pool: PoolDtype = PoolDtype.FP32) -> Arm:
    return spec_arm(compiler, Rollback.REPLAY, pool, policy, ring).model_copy(update={"ring_lag": True})


def rings(schedule: Schedule, request: int = 0) -> list[tuple[int, int, int]]:
    """(first token, before, after) of each window."""
    mine = [row for row in rows(schedule) if row.request == request and row.lag]
    return [(row.a, row.lag.before, row.lag.after) for row in mine if row.lag]


def counted(schedule: Schedule, ring: int, width: int) -> list[tuple[int, int, int]]:
    """The same, token by token: a ring that takes what each window keeps, and is emptied where it must be."""
    held, found = 0, []
    over = schedule.requests[0].computed_end
    for row in rows(schedule):
        if row.request == 0 and row.lag and row.kept:
            before, held = held, held + row.kept.temporal
            held = 0 if row.a + row.kept.temporal == over or held + width > ring else held
            found.append((row.a, before, held))
    return found


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_ring_is_folded_when_a_window_might_not_fit_and_at_the_end(data: st.DataObject) -> None:
    width, answer = data.draw(st.integers(1, 8)), data.draw(st.integers(10, 90))
    counts, left = [], answer - 9
    while left > 0:
        drafts = data.draw(st.integers(0, width - 1))
        counts.append((drafts, data.draw(st.integers(0, min(drafts, left - 1)))))
        left -= 1 + counts[-1][1]
    ring = data.draw(st.integers(width, 20))
    group = windowed(chain(70, answer, 5, 3), {"a0": counts})
    widest = max(1 + drafts for drafts, _ in counts)
    for compiler in BOTH:
        schedule = compile_schedule(group, lagging(compiler, ring, NO_BUFFER))
        assert simulate(schedule).problems == []
        if compiler is Compiler.WARM:
            assert rings(schedule) == counted(schedule, ring, widest)


@settings(max_examples=60, deadline=None)
@given(busy_groups(), st.sampled_from([TURN, NO_BUFFER, DOUBLE, *PIPELINED[:2]]), st.integers(1, 20))
def test_no_state_is_copied_stored_or_forked_while_its_ring_holds_tokens(
    busy: Group, policy: Policy, ring: int
) -> None:
    for compiler in BOTH:
        assert simulate(compile_schedule(busy, lagging(compiler, ring, policy))).problems == []


def test_a_ring_of_16_is_folded_after_16_tokens_and_at_the_end() -> None:
    schedule = compile_schedule(chain(40, 40), lagging(Compiler.WARM, 16))
    folded = [a + 1 for a, _, after in rings(schedule) if after == 0]
    assert folded == [44 + 16, 44 + 32, 44 + 40]
    assert max(before for _, before, _ in rings(schedule)) == 15


def test_a_swap_folds_the_ring_first() -> None:
    event = Preemption(kind="preemption", turn="a0", after=50, resume="swap")
    plain = chain(40, 40)
    trace = plain.traces[0].model_copy(update={"events": (event,)})
    schedule = compile_schedule(plain.model_copy(update={"traces": (trace,)}), lagging(Compiler.WARM, 16))
    assert 50 in [a + 1 for a, _, after in rings(schedule) if after == 0]
    assert simulate(schedule).problems == []


def test_a_window_wider_than_the_ring_is_refused_before_anything_runs() -> None:
    group = windowed(chain(40, 12), {"a0": [(5, 2)]})
    with pytest.raises(UsageError, match="a ring of 5 tokens with windows of 6"):
        compile_schedule(group, lagging(Compiler.WARM, 5))
    assert simulate(compile_schedule(group, lagging(Compiler.WARM, 6))).problems == []


@pytest.mark.parametrize(
    "update",
    [{"ring": None}, {"rollback": Rollback.COPY}, {"rollback": None}, {"tensor_parallel": 2}],
    ids=["no-ring", "copy", "no-rollback", "sharded"],
)
def test_a_lag_needs_a_ring_of_one_rank(update: dict[str, object]) -> None:
    arm = lagging(Compiler.WARM, 16)
    assert arm.name.endswith("spec-replay-ring16-lag")
    with pytest.raises(ValidationError, match="ring"):
        Arm.model_validate({**arm.model_dump(), **update})


def skipped_flush(schedule: Schedule) -> Schedule:
    """F60: at the end of an answer the ring isn't folded; the state is given away up to 15 tokens old."""

    def change(row: Row) -> Row:
        over = row.lag and row.kept and row.a + row.kept.temporal == schedule.requests[row.request].computed_end
        return replace(row, lag=Lag(row.lag.before, row.lag.before + 1)) if over and row.lag else row

    steps = [replace(s, rows=tuple(map(change, s.rows))) if isinstance(s, Compute) else s for s in schedule.steps]
    return replace(schedule, steps=tuple(steps))


@pytest.mark.parametrize("policy", [NO_BUFFER, TURN], ids=lambda policy: policy.slug)
def test_a_skipped_flush_is_a_label_that_means_more_tokens(policy: Policy) -> None:
    right = compile_schedule(chain(40, 13, 9, 3), lagging(Compiler.WARM, 16, policy))
    assert simulate(right).problems == []
    run = simulate(skipped_flush(right))
    assert run.wrong_labels > 0
    assert any("of which 13 are in its ring alone" in problem for problem in run.problems), run.problems


def test_an_overflow_is_named() -> None:
    right = compile_schedule(chain(40, 40), lagging(Compiler.WARM, 16))
    never = [
        replace(s, rows=tuple(replace(r, lag=Lag(r.a - 44, r.a - 43)) if r.lag else r for r in s.rows))
        if isinstance(s, Compute)
        else s
        for s in right.steps
    ]
    problems = simulate(replace(right, steps=tuple(never))).problems
    assert any("has 16 tokens and is given 17" in problem for problem in problems), problems
