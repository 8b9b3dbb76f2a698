"""An endpoint that speaks plain completions: what can be compared is, what can't be proven isn't claimed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replaycheck.bench.sessions import Shape, write_sessions
from replaycheck.subjects.server.http import ServerFault
from replaycheck.subjects.server.plain import _refuse_another_model
from replaycheck.subjects.server.plain_answer import _of, _wanted, identity, read, shared
from tests.subjects.runs import Run, result, settings, start
from tests.subjects.text_server import TextServer, said
from tests.subjects.toy_model import CacheFaults
from tests.subjects.toy_server import ToyServer

GROUPS = 4
TURNS = 3
ANSWER = 6
PINNED = settings("grid=block")
NEVER = CacheFaults(never=True)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "sessions.jsonl"
    write_sessions(path, GROUPS, Shape(turns=TURNS, prompt=36, answer=ANSWER))
    return path


@pytest.fixture
def run(replaycheck: Run, traces: Path, tmp_path: Path) -> Run:
    return lambda server, *more: start(replaycheck, "openai-text", server.url, traces, tmp_path, more)


def beside(other: ToyServer) -> tuple[str, ...]:
    return settings(f"cold-url={other.url}")


def test_a_clean_endpoint_beside_a_cold_one_passes(run: Run, tmp_path: Path) -> None:
    with TextServer() as server, TextServer(NEVER) as cold:
        outcome = run(server, *beside(cold))
    assert outcome.code == 0, outcome.err
    found = result(tmp_path)
    warm = found["arms"][-1]
    assert warm["proven_hits"] == GROUPS * (TURNS - 1)
    assert warm["hits"] == {"no hit; the same text as cold": GROUPS, "hit; the same text as cold": GROUPS * (TURNS - 1)}
    cell = found["cells"][0]
    assert (cell["effect"], cell["bits_differ"], cell["missing"]) == ("total", 0, 0)
    assert found["floor"]["measures"][0]["positions"] == cell["positions"] > 0
    assert any("token ids" in note for note in found["notes"])


def test_without_a_second_server_the_first_prompts_are_cold_and_the_same_again_warm(run: Run, tmp_path: Path) -> None:
    with TextServer() as server:
        outcome = run(server)
    assert outcome.code == 0, outcome.err
    found = result(tmp_path)
    assert found["arms"][-1]["proven_hits"] == GROUPS
    assert found["arms"][-1]["hits"]["left out: no proven cold answer"] == GROUPS * (TURNS - 1)
    assert any("later turns" in note for note in found["notes"])


def test_another_state_says_another_text_and_fails(run: Run, tmp_path: Path) -> None:
    """The same prompt again: 10 tokens after the restored state, so the toy, which forgets, still shows it."""
    with TextServer(CacheFaults(stale=True)) as server:
        assert run(server).code == 1
    found = result(tmp_path)
    assert found["arms"][-1]["hits"]["hit; another text than cold"] > 0
    assert found["cells"][0]["flips"] > 0
    assert found["cells"][0]["positions"] < GROUPS * ANSWER


def test_a_rounded_state_can_not_be_told_from_other_cuts(run: Run) -> None:
    with TextServer(CacheFaults(rounded=True)) as server:
        assert run(server).code == 6


@pytest.mark.parametrize(("fault", "second"), [(NEVER, False), (CacheFaults(silent=True), True)])
def test_without_a_reported_hit_nothing_is_proven(run: Run, tmp_path: Path, fault: CacheFaults, second: bool) -> None:
    with TextServer(fault) as server, TextServer(NEVER) as cold:
        outcome = run(server, *(beside(cold) if second else ()))
    assert outcome.code == 5, outcome.err
    assert result(tmp_path)["cells"][0]["vacuous"]


@pytest.mark.parametrize(
    ("fault", "more", "why", "flips", "words"),
    [
        (None, PINNED, "the same text as", 0, "equal tokens are weak evidence"),
        (CacheFaults(stale=True), (), "another text than", GROUPS, "without a split arm"),
        (CacheFaults(stale=True), PINNED, "another text than", GROUPS, "no arm was run cold twice"),
    ],
)
def test_texts_alone_are_counted_and_decide_nothing_without_the_noise(
    run: Run, tmp_path: Path, fault: CacheFaults | None, more: tuple[str, ...], why: str, flips: int, words: str
) -> None:
    with TextServer(fault, numbers=False) as server:
        outcome = run(server, *more)
    assert outcome.code == 6, outcome.err
    assert "Too few traces" not in outcome.out and words in " ".join(outcome.out.split())
    found = result(tmp_path)
    assert found["arms"][-1]["hits"][f"hit; {why} cold"] > 0
    cell = found["cells"][0]
    assert cell["missing"] == cell["unsized"] == cell["positions"] > 0
    assert cell["unsized_flips"] == cell["flips"] == flips
    assert (cell["first_divergence"]["argmax"] is not None) == bool(flips)
    assert {gate["verdict"] for gate in found["gates"]} == {"inconclusive"}
    assert [each["code"] for each in found["findings"]] == ["RC908", *(["RC909"] if flips else [])]
    rows = pq.read_table(tmp_path / "run" / "pairs").to_pandas()
    assert rows["dlogp"].isna().all() and rows["flip"].notna().all() and rows["flip"].sum() == flips


class Liar(TextServer):
    """Says another text where something was cached."""

    def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        answer = super().completion(asked)
        if answer["usage"]["prompt_tokens_details"]["cached_tokens"]:
            answer["choices"][0]["text"] = "~" + answer["choices"][0]["text"][1:]
        return answer


@pytest.mark.parametrize(("more", "code"), [(PINNED, 1), ((), 6)])
def test_texts_that_differ_more_often_than_cold_from_itself_fail_where_cuts_are_alike(
    run: Run, tmp_path: Path, more: tuple[str, ...], code: int
) -> None:
    with Liar(numbers=False) as server, TextServer(NEVER, numbers=False) as cold:
        assert run(server, *beside(cold), *more).code == code
    found = result(tmp_path)
    assert found["cells"][0]["unsized_flips"] == GROUPS * (TURNS - 1)
    assert (found["gates"][0]["verdict"] == "fail") == (code == 1)
    if code == 1:
        assert "cold twice: 0 of" in found["gates"][0]["derivation"]


def test_another_engine_in_mid_run_is_refused_by_its_header_and_its_list(run: Run, tmp_path: Path) -> None:
    with TextServer() as server, pytest.MonkeyPatch.context() as patched:
        assert run(server).code == 0
        assert any("noticed by its server header" in note for note in result(tmp_path)["notes"])
        (tmp_path / "run").rename(tmp_path / "first")
        names = iter(["one"] * 6 + ["two"] * 99)
        patched.setattr(server.handler, "version_string", lambda self: next(names))
        outcome = run(server)
    assert outcome.code == 4
    assert "its server header changed in mid-run, from 'one' to 'two'" in outcome.err


def test_a_second_server_that_caches_is_not_cold(run: Run) -> None:
    with TextServer() as server, TextServer() as cold:
        outcome = run(server, *beside(cold))
    assert outcome.code == 4
    assert "nothing is cold" in outcome.err


A = ("a", -0.5, {"a": -0.5, "b": -1.0})
B = ("b", -0.25, {"b": -0.25, "c": -3.0})


def test_places_after_the_first_difference_are_not_compared() -> None:
    cold, warm = read(said(A, A, A), 3, "x"), read(said(A, B, A), 3, "x")
    assert shared(cold, cold) == 3
    assert shared(cold, warm) == 2
    assert _wanted([cold, warm], 1) == ("a", -0.5)
    # a isn't among warm's best, so it is at most as likely as c there.
    assert _of("a", -0.5, warm, 1) == (-3.0, {identity("b"): -0.25, identity("c"): -3.0})
    assert _of("a", -4.0, warm, 1) == (-4.0, {identity("b"): -0.25, identity("c"): -3.0})
    assert _of("c", -4.0, warm, 1) == (-3.0, {identity("b"): -0.25, identity("c"): -3.0})


@pytest.mark.parametrize("turned", [False, True])
def test_an_answer_that_ends_earlier_is_a_difference_without_a_size(turned: bool) -> None:
    answers = [read(said(A), 2, "x"), read(said(A, B), 2, "x")][:: -1 if turned else 1]
    assert shared(*answers) == 2
    wanted = _wanted(answers, 1)
    assert wanted == ("b", -0.25)
    one, other = (_of(*wanted, each, 1) for each in answers)
    assert one and other and one[0] == other[0] == -0.25
    assert one[1] != other[1]


def test_numbers_that_were_not_said_are_missing() -> None:
    silent = read(said(("a", 0.0, {})), 1, "x")
    assert silent.entries == (None,)
    nothing = read({"choices": [{"index": 0, "text": "ab"}]}, 1, "x")
    assert (nothing.tokens, nothing.entries, nothing.cached, nothing.numbers) == (("a", "b"), (None, None), None, False)
    assert read({"choices": [{"index": 0, "text": "", "logprobs": None}]}, 1, "x").numbers
    assert _of("a", None, silent, 0) is None
    assert _of("b", None, read(said(A), 1, "x"), 0) == (-1.0, {identity("a"): -0.5, identity("b"): -1.0})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"choices": [{"index": 0, "message": {"content": "a"}}]}, "not one for chats"),
        (said(A, A, A), "3 came"),
        (said(A, cached=9), "cached_tokens"),
        (said(("a", 0.5, {"a": 0.5})), "can't be above 0"),
    ],
)
def test_what_cannot_be_is_a_fault(answer: Any, words: str) -> None:
    with pytest.raises(ServerFault, match=words):
        read(answer, 2, "x")


def test_two_servers_of_two_models_are_refused() -> None:
    first, other = read(said(A), 1, "x"), read(said(A), 1, "x")
    _refuse_another_model(first, other)
    with pytest.raises(ServerFault, match="9 tokens and as 8"):
        _refuse_another_model(first, replace(other, prompt=8))
