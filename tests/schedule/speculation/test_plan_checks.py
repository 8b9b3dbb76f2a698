"""The sweep of plans for ``probe state``: exact for all methods, with the smallest example where one isn't."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from replaycheck.schedule.speculation import checks, planner
from replaycheck.schedule.speculation.checks import SETUPS, check_plans, problems_of
from replaycheck.schedule.speculation.integers import RecoverPlan, recover_plan
from replaycheck.schedule.speculation.method import Setup
from replaycheck.schedule.speculation.planner import Answer, Planner
from replaycheck.schedule.speculation.symbolic import Symbolic, begin


def test_all_plans_are_exact() -> None:
    answers = list(check_plans())
    assert len(answers) == len(SETUPS) and all(answer.exact for answer in answers), answers
    # Prompts of 1 … 10 tokens, twice the block, with 0 … 3 drafts of which none to all are accepted: 10 · (1 + 2 + 3 + 4).
    assert {answer.sentence for answer in answers} == {
        "100 accept patterns leave every slot, window and cache as planned"
    }


def test_a_plan_is_swept_with_two_requests_the_second_a_token_ahead_and_every_other_step_without_drafts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers of 12 tokens after prompts of 5 and 6, with 2 of 3 drafts accepted."""
    planned: list[Sequence[Answer]] = []
    played: list[Sequence[tuple[int, ...]]] = []

    def watched(setup: Setup, answers: Sequence[Answer]) -> Planner:
        planned.append(answers)
        return planner.planner(setup, answers)

    def begun(setup: Setup, plan: Planner, paths: Sequence[tuple[int, ...]]) -> Symbolic:
        played.append(paths)
        return begin(setup, plan, paths)

    monkeypatch.setattr(checks, "planner", watched)
    monkeypatch.setattr(checks, "begin", begun)
    assert problems_of(SETUPS["slots"], 5, 3, 2) == []
    assert [answer.computed for answer in planned[0]] == [5, 6]
    windows = [[(window.offset, window.length, window.kept) for window in answer.windows] for answer in planned[0]]
    assert windows == [
        [(0, 4, 3), (3, 4, 3), (6, 4, 3), (9, 4, 2)],
        [(0, 4, 3), (3, 1, 1), (4, 4, 3), (7, 1, 1), (8, 4, 3)],
    ]
    assert [len(path) for path in played[0]] == [17, 18]
    assert all(a != b for path in played[0] for a, b in pairwise(path))  # else a state a token off would look right
    assert all(a != b for a, b in zip(*played[0], strict=False))


def test_a_final_column_without_its_minus_one_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """F52: only a state that ends exactly on a boundary is put into the next block."""

    def wrong(computed: int, accepted: int, window: int, width: int, block: int, columns: int) -> RecoverPlan:
        plan = recover_plan(computed, accepted, window, width, block, columns)
        return RecoverPlan(
            plan.length, min((computed + plan.length) // block, columns - 1), plan.boundary, plan.boundary_length
        )

    monkeypatch.setattr(planner, "recover_plan", wrong)
    answers = {answer.name: answer for answer in check_plans()}
    wrong_one = answers["plan: recover, aligned blocks"]
    assert not wrong_one.exact
    # The smallest example: after a prompt of 2 tokens (the second request) the third single step fills a block of 5.
    assert wrong_one.values == {"prompt": 1, "drafts": 0, "accepted": 0}
    assert wrong_one.sentence == "slot 5 should hold 5 tokens of request 1 and doesn't"
    assert answers["plan: recover"].exact and answers["plan: slots"].exact
