"""Counts, quantiles and policies of a set of traces."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from replaycheck import assets
from replaycheck.schedule.requests import plan_requests
from replaycheck.schema.policy import CheckpointPolicy
from replaycheck.traces.read import read_groups
from replaycheck.traces.stats import LEVELS, TraceStats, quantiles_of, stats_of
from replaycheck.traces.stats_text import stats_lines


@pytest.fixture(scope="module")
def quick() -> TraceStats:
    return stats_of(read_groups(assets.trace_suite("quick")))


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 100, 1001])
def test_quantiles_are_those_of_the_values_one_by_one(n: int) -> None:
    values = np.random.default_rng(n).integers(0, 50, n)
    expected = np.quantile(values, sorted(LEVELS.values()), method="inverted_cdf")
    assert list(quantiles_of(Counter(values.tolist())).values()) == expected.tolist()
    assert quantiles_of({}) == {}


def test_a_suite_is_counted(quick: TraceStats) -> None:
    groups = read_groups(assets.trace_suite("quick"))
    requests = sum(len(group.requests) for group in groups)
    assert (quick.groups, quick.requests) == (8, requests)
    assert quick.counts["turns"].total() == 8
    assert sum(quick.kinds.values()) == requests
    assert sum(quick.residues.values()) == requests
    assert quick.counts["new"].total() == requests - quick.kinds["first"]
    assert quick.near_grid == quick.residues[63] + quick.residues[0] + quick.residues[1]
    assert quick.uniform_p() is None, "46 prompts are fewer than five for each of 64 places"


def test_policies_hit_as_planned_and_recompute_less_when_they_store_more(quick: TraceStats) -> None:
    policy = CheckpointPolicy(every=64, turn_end=True)
    plans = [plan for group in read_groups(assets.trace_suite("quick")) for plan in plan_requests(group, policy)]
    counted = quick.planned[policy.slug]
    assert counted.hits == sum(plan.restore is not None for plan in plans)
    again = sum(plan.prompt - (plan.restore.position if plan.restore else 0) for plan in plans)
    assert counted.recomputed == again / sum(plan.prompt for plan in plans)
    shares = [quick.planned[name].recomputed for name in ("grid64+turn", "grid64", "grid256", "grid4096")]
    assert shares == sorted(shares)
    # Nothing can be restored that no earlier request of the trace has computed.
    assert shares[0] >= 1 - quick.shared / quick.prompt_tokens
    assert shares[-1] == 1.0


def test_the_record_holds_what_is_printed(quick: TraceStats) -> None:
    record, text = quick.record(), "\n".join(stats_lines(quick))
    assert record["residues"] == [quick.residues[residue] for residue in range(64)]
    assert f"{quick.groups} groups, {quick.requests} requests, {quick.prompt_tokens} prompt tokens" in text
    assert "grid64+turn" in text
    assert "append 15 (32.6%)" in text
    share = record["quantiles"]["previous_share"]  # type: ignore[index]
    assert 0 <= share["p10"] <= share["max"] <= 1


def test_groups_that_are_too_long_to_plan_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaycheck.traces.stats.PLANNED_TOKENS", 1000)
    stats = stats_of(read_groups(assets.trace_suite("quick")))
    assert 0 < stats.unplanned < 8
    assert f"without {stats.unplanned} groups" in list(stats_lines(stats))[-1]
