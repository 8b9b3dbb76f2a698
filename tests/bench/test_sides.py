"""Both sides do the same work: the same calls, and log-probabilities that agree."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from replaycheck.bench.lab_side import LabSide
from replaycheck.bench.sharing import count
from replaycheck.bench.sides import DECODE, PREFILL, Job, PassClock, Setup
from replaycheck.bench.workload import Sizes, arm, schedules, text_of
from replaycheck.errors import EngineEnvironmentError, InternalError, UsageError
from replaycheck.model.config import load_config
from replaycheck.schedule.steps import Compute
from replaycheck.schema.arm import Compiler
from replaycheck.schema.trace import TRACE_SCHEMA, Group, Request, Trace
from replaycheck.subjects.lab.network import RowInput

from .conftest import TEXT

SIZES = Sizes(sessions=2, turns=2, prompt=12, answer=4)
# Of each session: prompts of 13 (with bos) and 13 + 4 + 12 cold, the last prompt without what was restored warm.
PREFILLED, DECODED = 2 * (13 + 29 + 13 + 13), 2 * 2 * 2 * 3


def test_sessions_keep_step_with_each_other_and_between_the_arms() -> None:
    cold, warm = schedules(SIZES, TEXT, "exact")[0]
    kinds = [
        [str(row.kernel) for step in each.steps if isinstance(step, Compute) for row in step.rows]
        for each in (cold, warm)
    ]
    assert kinds[0] == kinds[1] == ["chunk", *["recurrent"] * 3] * 2
    assert warm.expected_hits == 1 and not any(
        row.snapshots for step in warm.steps if isinstance(step, Compute) for row in step.rows
    )


def test_no_two_sessions_are_the_same() -> None:
    found = [arms[0].requests[-1].tokens for arms in schedules(replace(SIZES, sessions=9), TEXT, "exact")]
    assert len(set(found)) == 9


def test_text_holds_no_special_tokens() -> None:
    cold, _ = schedules(SIZES, TEXT, "exact")[0]
    assert max(cold.requests[-1].tokens) >= 128
    from replaycheck.bench.workload import _session

    text = text_of([_session(SIZES, TEXT, 0)])
    assert max(text) < 128 and len(text) == 2 * (9 + 3)


@pytest.mark.parametrize("sizes", [(1, 1, 3, 4), (1, 1, 8, 1), (0, 1, 8, 4)])
def test_sessions_without_text_are_refused(sizes: tuple[int, int, int, int]) -> None:
    with pytest.raises(UsageError, match="a prompt needs 4 tokens or more"):
        Sizes(*sizes)


def test_more_sessions_than_text_are_refused() -> None:
    with pytest.raises(UsageError, match="give fewer sessions"):
        schedules(replace(SIZES, sessions=3), (65, 66), "exact")


@pytest.mark.parametrize("together", [True, False])
def test_the_lab_books_each_token_on_its_kind(setup: Setup, together: bool) -> None:
    measured = LabSide(setup).run(Job(SIZES, together, apart=True))
    assert measured.tokens == {PREFILL: PREFILLED, DECODE: DECODED}
    assert len(measured.logprobs) == 2 * SIZES.positions
    assert min(measured.kind_seconds.values()) > 0 and sum(measured.kind_seconds.values()) <= measured.seconds


def test_a_pass_of_both_kinds_is_our_bug(setup: Setup) -> None:
    side = LabSide(setup)
    network = side._network
    network.clock = PassClock("cpu", True)
    rows = [RowInput([65], 0, form, network.empty_state()) for form in ("chunk", "recurrent")]
    with pytest.raises(InternalError, match="mixes prefill and decode"):
        network.forward(rows)


@pytest.mark.parametrize("together", [True, False])
def test_transformers_makes_the_same_calls_and_agrees(
    setup: Setup, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two roundings of one function in fp32: 1.3e-7 nat at most, measured; a state lost at the restore moves it by 0.03."""
    pytest.importorskip("transformers")
    from replaycheck.bench.transformers_side import TransformersSide

    monkeypatch.setitem(sys.modules, "fla", sys.modules.get("fla"))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    job = Job(SIZES, together, apart=True)
    ours, side = LabSide(setup).run(job), TransformersSide(setup)
    theirs = side.run(job)
    assert theirs.tokens == ours.tokens
    assert np.abs(np.subtract(ours.logprobs, theirs.logprobs)).max() < 1e-5
    assert "chunk_kimi_delta_attention" in side.facts()["transformers"]


def test_without_transformers_the_extra_is_named(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    from replaycheck.bench.transformers_side import TransformersSide

    monkeypatch.setitem(sys.modules, "fla", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(EngineEnvironmentError, match=r"pip install 'replaycheck\[models\]'"):
        TransformersSide(setup)


def test_arms_that_compute_the_same_are_counted_once(setup: Setup) -> None:
    from replaycheck.bench.workload import _session

    config, group = load_config(setup.model), _session(SIZES, TEXT, 0)
    split, rounded, cold, warm = (
        arm(kind, "exact") for kind in (Compiler.SPLIT, Compiler.SPLIT_ROUNDED, Compiler.COLD, Compiler.WARM)
    )
    alike, apart = count(config, [group], [split, rounded]), count(config, [group], [cold, warm])
    # With an fp32 pool split-rounded is split: half is saved. Warm and cold prove something by being computed apart.
    assert (alike.asked, alike.saved) == (2 * alike.computed, 0.5)
    assert apart.asked == apart.computed == (PREFILLED + DECODED) // 2


def test_a_group_that_asks_twice_is_the_same_computation_again(setup: Setup) -> None:
    from replaycheck.bench.workload import _session

    group = _session(replace(SIZES, turns=1), TEXT, 0)
    twice = Group(
        schema=TRACE_SCHEMA,
        group="twice",
        vocabulary=group.vocabulary,
        traces=(group.traces[0], Trace(id="again", turns=group.traces[0].turns)),
        requests=(*group.requests, Request(trace="again", turn="assistant0")),
    )
    found = count(load_config(setup.model), [twice], [arm(Compiler.COLD, "exact")])
    assert found.asked == 2 * (13 + 3)
