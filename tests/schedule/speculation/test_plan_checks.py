"""The sweep of plans for ``probe state``: exact for all methods, with the smallest example where one isn't."""

from __future__ import annotations

import pytest

from replaycheck.schedule.speculation import planner
from replaycheck.schedule.speculation.checks import SETUPS, check_plans
from replaycheck.schedule.speculation.integers import RecoverPlan, recover_plan


def test_all_plans_are_exact() -> None:
    answers = list(check_plans())
    assert len(answers) == len(SETUPS) and all(answer.exact for answer in answers), answers


def test_a_final_column_without_its_minus_one_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """F52: only a state that ends exactly on a boundary is put into the next block."""

    def wrong(computed: int, accepted: int, window: int, width: int, block: int, columns: int) -> RecoverPlan:
        plan = recover_plan(computed, accepted, window, width, block, columns)
        return RecoverPlan(
            plan.length, min((computed + plan.length) // block, columns - 1), plan.boundary, plan.boundary_length
        )

    monkeypatch.setattr(planner, "recover_plan", wrong)
    answers = {answer.name: answer for answer in check_plans()}
    assert not answers["plan: recover, aligned blocks"].exact and answers["plan: recover, aligned blocks"].values
    assert answers["plan: recover"].exact and answers["plan: slots"].exact
