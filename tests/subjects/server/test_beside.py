"""Requests in flight at once: which may be, what they should hit, and that mixed-up states show in their cell alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replaycheck.bench.sessions import Shape
from replaycheck.schedule.steps import RequestPlan
from replaycheck.schema.arm import Effect
from replaycheck.schema.policy import SglangPolicy, VllmPolicy
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.expect import Expectation
from replaycheck.subjects.server.order import alone, beside, levels
from tests.engines.sessions import write_groups
from tests.subjects.runs import Run, result, settings, start
from tests.subjects.toy_model import CacheFaults
from tests.subjects.toy_server import ToyServer

BLOCKS = VllmPolicy(cache="vllm-align", block=16)


def plan(trace: str, tokens: Sequence[int], prompt: int) -> RequestPlan:
    return RequestPlan(trace, 0, 0, trace, tuple(tokens), prompt, len(tokens), None, ())


PLANS = (
    plan("a", range(10), 6),
    plan("a", range(20), 14),
    plan("a", [*range(10), 99, *range(9)], 14),  # another branch of the first turn
    plan("b", range(20), 14),  # the same tokens in another conversation
    plan("a", range(30), 26),
)


def test_a_turn_waits_for_those_that_it_builds_on_and_no_others() -> None:
    assert levels(PLANS) == [0, 1, 1, 0, 2]


def test_turns_of_a_level_take_turns_and_their_tokens_follow() -> None:
    asks = {
        number: [Ask(each.tokens[:end]) for end in range(each.prompt, each.prompt + 2)]
        for number, each in enumerate(PLANS)
    }
    del asks[4]
    parts = [[(sent.number, sent.opens) for sent in part] for part in beside(PLANS, asks, 3)]
    assert parts == [
        [(0, True), (3, True)],
        [(0, False), (3, False)],
        [(1, True), (2, True)],
        [(1, False), (2, False)],
    ]
    assert [len(part) for part in beside(PLANS[:1], {0: asks[0]}, 3)] == [2]  # or it had no company
    two = {number: asks[number] for number in (0, 3)}
    assert [[sent.number for sent in part] for part in beside(PLANS, two, 1)] == [[0], [3], [0], [3]]
    assert [[sent.number for sent in part] for part in alone(asks)] == [[0], [0], [1], [1], [2], [2], [3], [3]]


def test_hits_are_predicted_where_no_order_changes_them() -> None:
    first, second, other = tuple(range(40)), tuple(range(60)), (*range(10), *range(50, 80))
    shadow = Expectation(BLOCKS)
    assert shadow.hits([first, other]) == [0, 0]  # ten tokens are the same, less than a block
    assert shadow.hits([first, second]) == [None, None]
    shadow.sent(first, (1,))
    assert shadow.hits([second, other]) == [32, 0]
    assert shadow.hits([first, first[:39]]) == [32, 32]  # both restore what is there, and leave no more
    assert shadow.hits([first]) == [32]


def test_what_may_be_pushed_out_or_found_anywhere_is_not_predicted() -> None:
    small = Expectation(VllmPolicy(cache="vllm-align", block=16, capacity=2))
    assert small.hits([(1,) * 40, (2,) * 40]) == [None, None]
    assert small.hits([(1,) * 40]) == [0]
    exact = Expectation(SglangPolicy(cache="sglang-no-buffer"))
    assert exact.hits([(1, 2, 3), (1, 5, 6)]) == [None, None]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of two sessions; second prompts are longer than four blocks of 16."""
    path = tmp_path_factory.mktemp("toy") / "sessions.jsonl"
    write_groups(path, 2, 2, Shape(turns=2, prompt=36, answer=3))
    return path


def run(replaycheck: Run, server: ToyServer, traces: Path, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    asked = settings("block=16", "top=160", "score=2", "batch=3", *more)
    code = start(replaycheck, "vllm", server.url, traces, folder, asked).code
    return code, result(folder)


def cells(found: dict[str, Any]) -> dict[str, int]:
    return {cell["effect"]: cell["bits_differ"] for cell in found["cells"]}


def test_a_clean_server_answers_alike_beside_others(replaycheck: Run, traces: Path, tmp_path: Path) -> None:
    with ToyServer(gather=0.01) as server:
        code, found = run(replaycheck, server, traces, tmp_path, "grid=block")
        assert server.inside.most == 2
    assert code == 0
    assert cells(found) == {Effect.STATE: 0, Effect.TOGETHER: 0}
    warm, together = (arm for arm in found["arms"] if arm["compiler"] == "warm")
    assert warm["proven_hits"] == together["expected_hits"] == 4
    assert together["proven_hits"] == 4
    assert together["hits"]["as expected, beside others"] == 4
    assert found["gates"][0]["value"]["n"] == 2 * 2 * 4 * 2


def test_states_mixed_up_between_requests_fail_in_that_cell_alone(
    replaycheck: Run, traces: Path, tmp_path: Path
) -> None:
    with ToyServer(CacheFaults(crossed=True), gather=0.02) as server:
        code, found = run(replaycheck, server, traces, tmp_path, "grid=block")
    assert code == 1
    assert cells(found)[Effect.STATE] == 0 < cells(found)[Effect.TOGETHER]
    assert {measure["bits_differ"] for measure in found["floor"]["measures"]} == {0}
    failed = [gate for gate in found["gates"] if gate["verdict"] == "fail"]
    assert failed and all(gate["worst"].startswith("together/") for gate in failed)


def test_a_request_that_could_not_have_company_proves_nothing(replaycheck: Run, tmp_path: Path) -> None:
    write_groups(tmp_path / "alone.jsonl", 4, 1, Shape(turns=2, prompt=36, answer=3))
    with ToyServer() as server:
        code, found = run(replaycheck, server, tmp_path / "alone.jsonl", tmp_path, "grid=block", "score=1")
    assert code == 5
    together = next(cell for cell in found["cells"] if cell["effect"] == "together")
    assert together["vacuous"]
    assert set(found["arms"][-1]["hits"]) == {
        "as expected, alone: nothing else could be sent",
        "no hit expected: nothing before it has this prefix up to a block's end, alone: nothing else could be sent",
    }
