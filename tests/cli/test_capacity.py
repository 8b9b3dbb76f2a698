"""The verb: its example, one JSON object, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_json_is_one_object_with_the_published_figures(replaycheck: Callable[..., Any]) -> None:
    outcome = replaycheck("capacity", "--drafts", 7, "--sequences", 4, "--dp", 16, "--gain", 10.97, "--json")
    found = json.loads(outcome.out)
    assert outcome.code == 0 and outcome.err == ""
    assert found["sizes"]["temporal"] == 434110464 and found["wasted"] == 12155092992
    assert found["sequences_total"] == 64 and len(found["readings"]) == 3
    assert found["readings"][0]["budgets"]["4"] == pytest.approx(124.69e9, rel=1e-3)


def test_the_shipped_model_is_read(replaycheck: Callable[..., Any]) -> None:
    model = next((Path(__file__).parents[2] / "models").glob("*/config.json")).parent
    outcome = replaycheck("capacity", "--model", model, "--json")
    assert outcome.code == 0 and json.loads(outcome.out)["geometry"]["layers"] == 6


def test_a_geometry_can_be_given(replaycheck: Callable[..., Any]) -> None:
    outcome = replaycheck("capacity", "--layers", 20, "--heads", 32, "--pool", "bf16", "--tp", 2, "--json")
    assert json.loads(outcome.out)["sizes"]["temporal"] == 20 * 16 * 128 * 128 * 2


def test_without_speculation_there_is_no_waste(replaycheck: Callable[..., Any]) -> None:
    outcome = replaycheck("capacity", "--drafts", 0)
    assert outcome.code == 0 and "wasted" not in outcome.out and "no speculation" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tp", 5], "doesn't divide the 96 heads"),
        (["--geometry", "kimi"], "unknown geometry 'kimi'; choose 'kimi-k3' or 'kimi-linear-48b'"),
        (["--layers", 3], "--layers and --heads belong together"),
        (["--model", "x", "--geometry", "kimi-k3"], "give one of --model, --geometry"),
        (["--model", "nowhere"], "cannot be read"),
        (["--gain", 0], "must be a percentage above 0"),
        (["--gain", "nan"], "must be a percentage above 0"),
        (["--gain", 5, "--drafts", 0], "--gain needs drafts"),
        (["--ring", 3], "smaller than the window of 8"),
        (["--pool", "int8"], "Invalid value for '--pool'"),
        (["--sequences", 0], "Invalid value for '--sequences'"),
    ],
)
def test_what_it_refuses_is_a_usage_error(replaycheck: Callable[..., Any], arguments: list[object], words: str) -> None:
    outcome = replaycheck("capacity", *arguments)
    assert outcome.code == 2 and words in outcome.err and outcome.out == ""
