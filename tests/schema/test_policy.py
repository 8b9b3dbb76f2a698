"""A checkpoint policy that can't be played is refused in words; two that play differently have two names."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from replaycheck.schema.policy import CHUNK, Policy, SglangPolicy
from replaycheck.schema.problems import problems

POLICY: TypeAdapter[Any] = TypeAdapter(Policy)

REFUSED = [
    ({"every": 65}, "every = 65 isn't a multiple of the chunk of 64 tokens; give a multiple"),
    ({}, "a policy needs every, prompt_end or turn_end; without one nothing is ever restored"),
    ({"turn_end": True, "pipeline": 2}, "pipeline = 2 with turn_end: the end of an answer is seen a step late"),
    ({"cache": "sglang-no-buffer", "page": 2}, "page = 2: sglang-no-buffer stores exact ends, so its page is 1"),
    ({"cache": "sglang-no-buffer", "pipeline": 2}, "pipeline = 2: sglang-no-buffer gives the working slot away"),
    ({"cache": "sglang-extra-buffer", "page": 48}, "page = 48 neither divides the chunk of 64 tokens nor is a multiple"),
    (
        {"cache": "sglang-extra-buffer", "page": 64, "track_interval": 96},
        "track_interval = 96 isn't a multiple of the page of 64 tokens; give one",
    ),
    ({"cache": "sglang-extra-buffer", "page": 16, "budget": 15}, "budget = 15 is less than the page of 16 tokens"),
    ({"cache": "vllm-align", "block": 64, "tail": 48}, "tail = 48 isn't a proper divisor of the block of 64 tokens"),
    ({"cache": "vllm-align", "block": 64, "tail": 64}, "tail = 64 isn't a proper divisor of the block of 64 tokens"),
    ({"cache": "vllm-align", "block": 64, "retain": 96}, "retain = 96 isn't a multiple of the block of 64 tokens"),
    ({"cache": "lru"}, "cache is none of reference, sglang-no-buffer, sglang-extra-buffer, vllm-none, vllm-align, server"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_a_policy_that_cannot_be_played_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        POLICY.validate_python(given)
    [problem] = problems(refused.value, "see the manual")
    assert said in str(problem)
    assert str(problem).endswith("; see the manual")


# Neighbours of what is refused, and one policy for each field that changes a plan.
ALLOWED: list[dict[str, Any]] = [
    {"every": 64},
    {"every": 128},
    {"prompt_end": True},
    {"turn_end": True},
    {"prompt_end": True, "turn_end": True},
    {"every": 64, "turn_end": True},
    {"every": 64, "capacity": 1},
    {"every": 64, "budget": 1},
    {"every": 64, "capacity": 1, "budget": 1},
    {"every": 64, "pipeline": 2},
    {"prompt_end": True, "pipeline": 2},
    {"cache": "sglang-no-buffer"},
    {"cache": "sglang-extra-buffer"},
    {"cache": "sglang-extra-buffer", "page": 32},
    {"cache": "sglang-extra-buffer", "page": 64},
    {"cache": "sglang-extra-buffer", "page": 128},
    {"cache": "sglang-extra-buffer", "page": 128, "budget": 128},
    {"cache": "sglang-extra-buffer", "track_interval": 64},
    {"cache": "sglang-extra-buffer", "pipeline": 2},
    {"cache": "vllm-none"},
    {"cache": "vllm-align"},
    {"cache": "vllm-align", "block": 64},
    {"cache": "vllm-align", "block": 64, "tail": 32},
    {"cache": "vllm-align", "block": 64, "retain": 128},
    {"cache": "vllm-align", "block": 64, "retain": "all"},
    {"cache": "server"},
]


def test_unlike_policies_have_unlike_names() -> None:
    """Arms and floors are found by this name."""
    policies = [POLICY.validate_python(given) for given in ALLOWED]
    for one, other in combinations(policies, 2):
        assert one.slug != other.slug, (one, other)


def test_a_name_tells_the_policy_without_its_defaults() -> None:
    whole = {"every": 64, "prompt_end": True, "turn_end": True, "capacity": 3, "budget": 50}
    assert POLICY.validate_python(whole).slug == "grid64+prompt+turn+cap3+budget50"
    blocks = {"cache": "vllm-align", "block": 64, "tail": 32, "retain": 128, "pipeline": 2}
    assert POLICY.validate_python(blocks).slug == "vllm-align+block64+tail32+retain-128+pipeline2"
    pages = {"cache": "sglang-extra-buffer", "page": 2, "track_interval": 64}
    assert POLICY.validate_python(pages).slug == "sglang-extra-buffer+page2+track64"


@pytest.mark.parametrize(
    ("page", "interval", "checkpoints", "tracks"),
    [(1, 256, 64, 256), (1, 96, 64, 192), (32, 32, 64, 64), (128, 128, 128, 128), (128, 384, 128, 384)],
)
def test_the_grids_of_the_extra_buffer_are_least_common_multiples(
    page: int, interval: int, checkpoints: int, tracks: int
) -> None:
    policy = SglangPolicy(cache="sglang-extra-buffer", page=page, track_interval=interval)
    assert (policy.checkpoint_grid, policy.track_grid) == (checkpoints, tracks)
    assert checkpoints % CHUNK == 0 == checkpoints % page


KEEPS_ANSWERS = [
    ({"turn_end": True}, True),
    ({"prompt_end": True}, False),
    ({"cache": "sglang-no-buffer"}, True),
    ({"cache": "sglang-extra-buffer"}, True),
    ({"cache": "vllm-none"}, False),
    ({"cache": "vllm-none", "retain": "all"}, False),
    ({"cache": "vllm-align"}, False),
    ({"cache": "vllm-align", "retain": "all"}, True),
    ({"cache": "vllm-align", "retain": 512}, True),
    ({"cache": "server"}, False),
]


@pytest.mark.parametrize(("given", "keeps"), KEEPS_ANSWERS, ids=str)
def test_which_policies_keep_an_answer_as_it_was_decoded(given: dict[str, Any], keeps: bool) -> None:
    assert POLICY.validate_python(given).keeps_answers is keeps


INTERIOR = [
    ({"every": 64}, True),
    ({"turn_end": True}, False),
    ({"cache": "sglang-extra-buffer"}, True),
    ({"cache": "sglang-no-buffer"}, False),
    ({"cache": "vllm-align"}, False),
    ({"cache": "server"}, False),
]


@pytest.mark.parametrize(("given", "interior"), INTERIOR, ids=str)
def test_which_policies_ask_the_kernel_for_states_inside_an_extend(given: dict[str, Any], interior: bool) -> None:
    assert POLICY.validate_python(given).interior is interior
