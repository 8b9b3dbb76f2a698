"""The speculation suite that ships: its windows, its arms and cells, and what is refused before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.assets import suite_file, trace_suite
from replaycheck.errors import UsageError
from replaycheck.replay.settings import resolve
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.requests import check_playable
from replaycheck.schedule.simulate import simulate
from replaycheck.schedule.speculation.early import windows_by_turn
from replaycheck.schedule.steps import RequestPlan
from replaycheck.schema.arm import Arm, Cell, Compiler, Effect, Rollback
from replaycheck.schema.suite import expand
from replaycheck.schema.trace import Group
from replaycheck.traces.read import read_groups
from replaycheck.traces.suite import parse_suite
from replaycheck.traces.suites.speculation import speculation_specs
from tests.sampling import Sampler, build_group


@pytest.fixture(scope="module")
def shipped() -> tuple[Group, ...]:
    return tuple(read_groups(trace_suite("speculation")))


@pytest.fixture(scope="module")
def matrix() -> tuple[tuple[Arm, ...], tuple[Cell, ...]]:
    return expand(parse_suite(suite_file("speculation")))


def test_the_shipped_windows_keep_each_count_and_cross_chunk_ends(shipped: tuple[Group, ...]) -> None:
    counts, crossed = set(), set()
    for group in shipped:
        (trace,) = group.traces
        prompts = {plan.tokens[plan.prompt : plan.end]: plan.prompt for plan in _plans(group)}
        for turn, windows in windows_by_turn(group, trace).items():
            tokens = next(each.tokens for each in trace.turns if each.id == turn)
            for window in windows:
                a = prompts[tokens[1:]] + window.offset
                counts.add((len(window.drafts), window.accepted))
                crossed |= {p for p in range(64, a + window.kept, 64) if a < p and window.drafts}
    assert {(3, accepted) for accepted in range(4)} | {(0, 0), (7, 0), (7, 7)} <= counts
    assert len(crossed & {128, 192, 256}) >= 2


def _plans(group: Group) -> list[RequestPlan]:
    arm = expand(parse_suite(suite_file("speculation")))[0][0]
    return list(compile_schedule(group, arm).requests)


def test_every_arm_has_a_plan_that_the_simulator_accepts(
    shipped: tuple[Group, ...], matrix: tuple[tuple[Arm, ...], tuple[Cell, ...]]
) -> None:
    hits = 0
    for group in shipped:
        for arm in matrix[0]:
            schedule = compile_schedule(group, arm)
            run = simulate(schedule)
            assert (run.problems, run.wrong_labels) == ([], 0)
            hits += schedule.expected_hits
    assert hits > 0


def test_the_reference_of_a_state_cell_decodes_plainly_unless_windows_are_recovered(
    matrix: tuple[tuple[Arm, ...], tuple[Cell, ...]],
) -> None:
    arms = {arm.name: arm for arm in matrix[0]}
    assert {arm.rollback for arm in arms.values() if arm.compiler is Compiler.WARM} == set(Rollback)
    for cell in matrix[1]:
        reference, candidate = arms[cell.reference], arms[cell.candidate]
        assert candidate.rollback is not None
        recovers = candidate.rollback is Rollback.RECOVER
        expected = candidate.rollback if cell.effect is Effect.EXACT or recovers else None
        assert reference.rollback is expected, cell.name


def test_a_suite_is_made_from_a_sampler_alone() -> None:
    def sample(tokens: list[int], limit: int, seed: int) -> list[int]:
        return [32 + (seed + 7 * i) % 90 for i in range(limit)]

    def made() -> list[Group]:
        sampler = Sampler(sample, "0" * 32, 1, 1.0)
        return [build_group(spec, sampler) for spec in speculation_specs()]

    groups = made()
    assert [group.group for group in groups] == ["spec_chat", "spec_edges", "spec_rejected"]
    for group in groups:
        check_playable(group)
    assert groups == made()


def test_a_ring_that_is_too_small_is_refused_before_a_run(tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(suite_file("speculation").read_text().replace("ring = 16", "ring = 7"))
    with pytest.raises(
        UsageError, match=r"group 'spec_chat', arm .*spec-replay-ring7: a ring of 7 tokens with windows of 8"
    ):
        resolve(suite=suite, traces=[str(trace_suite("speculation"))])
