"""Answers as vLLM and SGLang give them, written by hand after what was measured, and answers that can't be believed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from replaycheck.subjects.server.completions import reply
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.http import ServerFault
from replaycheck.subjects.server.sglang import read
from replaycheck.subjects.server.vllm import _prompt_entry

SENT = (141, 5, 6, 7)


def vllm(**changes: Any) -> dict[str, Any]:
    """0.32.0 with return_tokens_as_token_ids, return_token_ids, logprobs 3 and --enable-prompt-tokens-details."""
    choice: dict[str, Any] = {
        "index": 0,
        "text": "",
        "logprobs": {
            "text_offset": [0],
            "token_logprobs": [-0.25],
            "tokens": ["token_id:9"],
            "top_logprobs": [{"token_id:9": -0.25, "token_id:0": -2.5, "token_id:319": -9999.0}],
        },
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": [9],
        "prompt_logprobs": None,
        "prompt_token_ids": list(SENT),
    }
    logprobs = choice["logprobs"] | changes.pop("logprobs", {})
    choice |= {"logprobs": logprobs} | changes.pop("choice", {})
    usage = {
        "prompt_tokens": 4,
        "total_tokens": 5,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 2, "created_cache_tokens": None, "multimodal_tokens": None},
    }
    return {"id": "cmpl-1", "object": "text_completion", "choices": [choice], "usage": usage} | changes


def test_a_vllm_answer() -> None:
    found = reply(vllm(), SENT, None, "x")
    assert (found.tokens, found.cached) == ((9,), 2)
    assert found.entries == ((-0.25, {9: -0.25, 0: -2.5, 319: -9999.0}),)


def test_the_scored_token_is_looked_up_and_missing_if_it_is_not_there() -> None:
    assert reply(vllm(), SENT, 0, "x").entries[0] == (-2.5, {9: -0.25, 0: -2.5, 319: -9999.0})
    entry = reply(vllm(), SENT, 4, "x").entries[0]
    assert entry is not None and entry[0] is None


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}])
def test_hits_that_are_not_reported_are_unknown(details: object) -> None:
    assert reply(vllm(usage={"prompt_tokens": 4, "prompt_tokens_details": details}), SENT, None, "x").cached is None


@pytest.mark.parametrize("cached", [4, -1, 1.5, True, "2"])
def test_impossible_hits_are_faults(cached: object) -> None:
    usage = {"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": cached}}
    with pytest.raises(ServerFault, match="cached_tokens"):
        reply(vllm(usage=usage), SENT, None, "x")


@pytest.mark.parametrize(
    "logprobs",
    [
        {"token_logprobs": [], "top_logprobs": []},
        {"token_logprobs": [0.0], "top_logprobs": [{}]},
        {"token_logprobs": [None], "top_logprobs": [None]},
        {"token_logprobs": [None], "top_logprobs": [{"token_id:9": None}]},
        {"token_logprobs": None, "top_logprobs": None},
    ],
)
def test_left_out_is_missing(logprobs: dict[str, Any]) -> None:
    assert reply(vllm(logprobs=logprobs), SENT, 9, "x").entries == (None,)


def test_no_logprobs_at_all_are_missing() -> None:
    assert reply(vllm(choice={"logprobs": None}), SENT, 9, "x").entries == (None,)


def test_nan_stays_nan() -> None:
    nan = float("nan")
    entry = reply(
        vllm(logprobs={"token_logprobs": [nan], "top_logprobs": [{"token_id:9": nan}]}), SENT, 9, "x"
    ).entries[0]
    assert entry is not None and entry[0] is not None and math.isnan(entry[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"logprobs": {"token_logprobs": [0.5]}}, "can't be above 0"),
        ({"logprobs": {"top_logprobs": [{"token_id:9": float("inf")}]}}, "can't be above 0"),
        ({"logprobs": {"token_logprobs": [-1.0, -1.0]}}, "1 tokens, and log-probabilities of 2"),
        ({"logprobs": {"top_logprobs": [{"": -1.0}]}}, "return_tokens_as_token_ids"),
        ({"choice": {"prompt_token_ids": [141, 5, 6, 8]}}, "another prompt"),
        ({"choice": {"index": 1}}, "one prompt was sent"),
        ({"choices": []}, "one prompt was sent"),
        ({"choices": None}, "no list of choices"),
        ({"usage": {"prompt_tokens": 5}}, "adds or drops some"),
    ],
)
def test_what_cannot_be_is_a_fault(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ServerFault, match=words):
        reply(vllm(**changes), SENT, 9, "x")


@pytest.mark.parametrize("answer", [None, [], "text", 3])
def test_other_values_than_objects_are_faults(answer: Any) -> None:
    with pytest.raises(ServerFault, match="no list of choices"):
        reply(answer, SENT, 9, "x")


def test_a_prompt_entry_has_its_token_whatever_its_rank() -> None:
    said = {
        "5": {"logprob": -7.0, "rank": 40, "decoded_token": ""},
        "9": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
    }
    assert _prompt_entry(said, 5, "x") == (-7.0, {5: -7.0, 9: -0.5})
    assert _prompt_entry(None, 5, "x") is None
    assert _prompt_entry(said, 6, "x") == (None, {5: -7.0, 9: -0.5})


def sglang(**meta: Any) -> dict[str, Any]:
    """As SGLang's own tests read it."""
    said = {
        "prompt_tokens": 4,
        "completion_tokens": 1,
        "cached_tokens": 2,
        "output_token_logprobs": [[-0.25, 9, None]],
        "output_top_logprobs": [[[-0.25, 9, None], [-2.5, 0, None]]],
        "output_token_ids_logprobs": [[[-7.0, 33, None]]],
    }
    return {"text": "a", "output_ids": [9], "meta_info": said | meta}


def test_an_sglang_answer() -> None:
    found = read(sglang(), Ask(SENT, scored=33), "x")
    assert (found.tokens, found.cached) == ((9,), 2)
    assert found.entries == ((-7.0, {9: -0.25, 0: -2.5}),)


def test_sglang_says_less_or_of_another_prompt() -> None:
    assert read(sglang(output_top_logprobs=None), Ask(SENT, scored=33), "x").entries == (None,)
    assert read(sglang(cached_tokens=None), Ask(SENT), "x").cached is None
    with pytest.raises(ServerFault, match="4 tokens were sent and 5"):
        read(sglang(prompt_tokens=5), Ask(SENT), "x")
    with pytest.raises(ServerFault, match="no meta_info"):
        read({"error": "x"}, Ask(SENT), "x")
