"""A talk with vLLM 0.32.0's own server, recorded by ``tests/engines/record_vllm.py`` and played back to the adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaycheck.schema.policy import VllmPolicy
from replaycheck.subjects.server.completions import ID
from replaycheck.subjects.server.http import ServerFault
from tests.engines.exchanges import Exchange, playing, serving
from tests.engines.talk import BLOCK, PROMPT, Talk, talk

FILE = Path(__file__).parent / "recorded" / "vllm-0.32.0.json"


@pytest.fixture(scope="module")
def recorded() -> list[Exchange]:
    return list(json.loads(FILE.read_text()))


@pytest.fixture(scope="module")
def said(recorded: list[Exchange]) -> Iterator[Talk]:
    """Every request has to be the recorded one, or the talk stops."""
    with serving(playing(recorded)) as (url, seen):
        yield talk(url)
        assert len(seen) == len(recorded)


def test_it_is_recognised_with_its_block_and_without_a_tokenizer(said: Talk) -> None:
    facts = said.facts
    assert (facts.version, facts.model, facts.length, facts.hits) == ("0.32.0", "tiny", 2048, True)
    assert facts.policy == VllmPolicy(cache="vllm-align", block=BLOCK)
    assert not said.tokenizer


def test_hits_are_those_of_the_server(said: Talk) -> None:
    assert [said.first.cached, said.again.cached, said.scored.cached] == [0, BLOCK, BLOCK]
    assert [each.cached for each in (said.salted, said.reset, said.scoring)] == [0, 0, 0]


def test_tokens_are_named_by_ids_and_scored(said: Talk) -> None:
    (first,), (scored,), (other,) = (each.entries for each in (said.first, said.scored, said.other))
    token = said.first.tokens[0]
    assert first is not None and scored is not None and other is not None
    assert first[0] == scored[0] == scored[1][token] == max(scored[1].values()) < 0
    # A token that wasn't among the best ones is missing, whatever else was said.
    assert other[0] is None and other[1] == scored[1]


def test_each_way_to_be_cold_says_the_same_as_the_hit(said: Talk) -> None:
    """Measured on that server: in fp32 its cold and cached log-probabilities have the same bits."""
    assert said.salted.entries == said.reset.entries == said.scoring.entries == said.scored.entries


def test_a_whole_prompt_is_scored_by_prompt_logprobs(said: Talk) -> None:
    of_prompt, of_answer = said.whole
    assert of_prompt is not None and of_answer is not None and said.scored.entries[0] is not None
    assert of_prompt[0] == of_prompt[1][PROMPT[-1]]
    # Another computation of the same: one prefill, and fp32.
    assert of_answer[0] == pytest.approx(said.scored.entries[0][0], abs=1e-5)


def test_the_recording_is_small_and_holds_what_it_is_for(recorded: list[Exchange]) -> None:
    assert FILE.stat().st_size < 60_000
    assert recorded[0]["answer"]["data"][0]["root"] == "model"  # no folder of the machine that recorded it
    paths = [each["path"] for each in recorded]
    assert {"/v1/completions", "/v1/models", "/version", "/reset_prefix_cache", "/tokenize"} == set(paths)
    asked: list[dict[str, Any]] = [each["asked"] for each in recorded if each["path"] == "/v1/completions"]
    assert {each.get("prompt_logprobs") for each in asked} == {None, 0, 2}
    assert all(each["return_tokens_as_token_ids"] and each["cache_salt"].startswith("salt ") for each in asked)
    best = recorded[-1]["answer"]["choices"][0]["logprobs"]["top_logprobs"][0]
    assert all(name.startswith(ID) for name in best)


def test_another_request_than_the_recorded_one_stops_the_talk(recorded: list[Exchange]) -> None:
    changed = [each | {"asked": each["asked"] and each["asked"] | {"max_tokens": 2}} for each in recorded]
    with serving(playing(changed)) as (url, _), pytest.raises(ServerFault, match="not the recorded request"):
        talk(url)
