"""What SGLang 0.5.17 said on an H200 serving the shipped model, replayed: cold, warm, and a flush while it was busy.

Left out are fields that nothing reads (ids, times, most settings) and the folder before the model's name.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from replaycheck.errors import EngineEnvironmentError
from replaycheck.schema.policy import SglangPolicy
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.expect import Expectation
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.subjects.server.sglang import FLUSHES, SglangEngine

INFO = {
    "version": "0.5.17",
    "page_size": 1,
    "mamba_radix_cache_strategy": "extra_buffer",
    "mamba_track_interval": 256,
    "mamba_ssm_dtype": None,
    "chunked_prefill_size": 8192,
    "context_length": None,
    "attention_backend": "triton",
    "enable_deterministic_inference": False,
}
MODEL = {"model_path": "/models/kimi-linear-ascii-7m", "model_type": "kimi_linear"}
PROMPT = tuple(2 + (at * at + 3 * at) % 97 for at in range(129))
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)
BEST = [[-0.19561724364757538, 55, None], [-2.883117198944092, 54, None], [-3.601867198944092, 56, None]]
WARM = [[-0.19516953825950623, 55, None], [-2.882669448852539, 54, None], [-3.601419448852539, 56, None]]


def answer(best: list[list[Any]], scored: float, cached: int) -> dict[str, Any]:
    return {
        "output_ids": [55],
        "meta_info": {
            "finish_reason": {"type": "length", "length": 1},
            "prompt_tokens": 129,
            "input_token_logprobs": [],
            "output_token_logprobs": [best[0]],
            "output_top_logprobs": [best],
            "output_token_ids_logprobs": [[[scored, 5, None]]],
            "completion_tokens": 1,
            "cached_tokens": cached,
        },
    }


COLD, HIT = answer(BEST, -17.35186767578125, 0), answer(WARM, -17.35141944885254, 128)


class Recorded:
    """Gives the recorded answers. busy: flushes that are refused first."""

    def __init__(self, busy: int = 0) -> None:
        self.busy, self.full = busy, False
        self.sent: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/flush_cache":
            return self._flush()
        if request.url.path == "/generate":
            self.sent.append(json.loads(request.content))
            said, self.full = HIT if self.full else COLD, True
            return httpx.Response(200, json=said)
        known = {"/server_info": INFO, "/model_info": MODEL}
        return httpx.Response(200, json=known[request.url.path])

    def _flush(self) -> httpx.Response:
        self.busy -= 1
        if self.busy >= 0:
            return httpx.Response(400, text="Flush cache failed.\n")
        self.full = False
        return httpx.Response(200, text=FLUSHED)


def engine(recorded: Recorded, top: int = 3) -> SglangEngine:
    client = Client("http://127.0.0.1:1", transport=httpx.MockTransport(recorded), sleep=lambda _: None)
    return SglangEngine(client, ServerSettings(top=top), sleep=lambda _: None)


def test_cold_and_warm_as_recorded() -> None:
    asked = engine(Recorded())
    cold = asked.ask([Ask(PROMPT, cold=True, scored=5)])[0]
    warm = asked.ask([Ask(PROMPT, scored=5)])[0]
    assert (cold.tokens, cold.cached, warm.cached) == ((55,), 0, 128)
    assert cold.entries[0] is not None and warm.entries[0] is not None
    assert (cold.entries[0][0], warm.entries[0][0]) == (-17.35186767578125, -17.35141944885254)
    assert cold.entries[0][1][55] == -0.19561724364757538


def test_the_hit_is_the_expected_one() -> None:
    """129 tokens: the snapshot lies at 128, the last multiple of the chunk of 64."""
    policy = engine(Recorded()).facts().policy
    assert policy == SglangPolicy(cache="sglang-extra-buffer", page=1, track_interval=256, budget=8192)
    shadow = Expectation(policy)
    shadow.sent(PROMPT, (55,))
    assert shadow.hit(PROMPT) == HIT["meta_info"]["cached_tokens"]


def test_facts_by_the_names_that_stay() -> None:
    facts = engine(Recorded()).facts()
    assert (facts.version, facts.model) == ("0.5.17", "kimi-linear-ascii-7m")
    assert facts.asked is None
    assert facts.deterministic is None


def test_a_busy_server_is_asked_again_and_not_for_ever() -> None:
    engine(Recorded(busy=FLUSHES - 1)).begin("x")
    with pytest.raises(EngineEnvironmentError, match="refused 20 times"):
        engine(Recorded(busy=FLUSHES)).begin("x")


def test_all_log_probabilities_are_asked_for_by_number() -> None:
    recorded = Recorded()
    engine(recorded, top=-1).ask([Ask(PROMPT)])
    assert recorded.sent[0]["top_logprobs_num"] == 144
