"""The golden log-probabilities: made again they are the same, and an engine that is off is told from one that rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replaycheck.assets import golden_file, model_dir
from replaycheck.errors import UsageError
from replaycheck.model import golden as module
from replaycheck.model.checkpoint import digest
from replaycheck.model.golden import Golden, compute, difference, golden_groups, read_golden, write_golden
from replaycheck.replay import verify as verifying

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def shipped() -> Golden:
    return read_golden(golden_file())


@pytest.fixture
def one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify on the smallest group."""
    monkeypatch.setattr(verifying, "golden_groups", lambda: golden_groups()[1:2])


def test_they_are_of_the_model_that_ships_and_add_up_to_one(shipped: Golden) -> None:
    assert shipped.model == digest(model_dir())
    # Kept in float64: a sum of 144 terms, each addition with a rounding of 2^-53.
    assert np.abs(np.exp(shipped.logprobs).sum(axis=1) - 1).max() < 144 * 2.0**-53
    assert len(set(shipped.places)) == len(shipped.places) == len(shipped.tokens)


def test_the_oracle_says_the_same_again(shipped: Golden) -> None:
    made = compute(model_dir(), golden_groups()[1:2])
    rows = [shipped.places.index(place) for place in made.places]
    assert np.abs(shipped.logprobs[rows] - made.logprobs).max() <= module.AGREE


def test_what_changed_is_named(shipped: Golden) -> None:
    assert difference(shipped, shipped) == ""
    assert "another model" in difference(shipped, replace(shipped, model="x"))
    assert "other positions" in difference(shipped, replace(shipped, tokens=shipped.tokens + 1))
    assert "differ by up to 1e-08" in difference(shipped, replace(shipped, logprobs=shipped.logprobs + 1e-8))


def test_files_come_back_as_they_were(shipped: Golden, tmp_path: Path) -> None:
    write_golden(tmp_path / "x.safetensors", shipped)
    again = read_golden(tmp_path / "x.safetensors")
    assert difference(shipped, again) == ""
    (tmp_path / "bad").write_bytes(b"not a tensor")
    with pytest.raises(UsageError, match="no golden log-probabilities"):
        read_golden(tmp_path / "bad")


@pytest.mark.usefixtures("one_group")
def test_the_lab_agrees_cold_and_warm_and_a_shifted_oracle_does_not(
    replaycheck: Run, shipped: Golden, tmp_path: Path
) -> None:
    outcome = replaycheck("model", "verify", "--json")
    assert outcome.code == 0
    arms = json.loads(outcome.out)["arms"]
    assert {arm["arm"].partition("/")[0] for arm in arms} == {"cold", "warm"}
    assert all(arm["hits"] for arm in arms if arm["arm"].startswith("warm"))
    # Far within the bound of 4: bf16 activations cost about two roundings of the logits.
    assert max(arm["worst_trace"] for arm in arms) < 3
    write_golden(tmp_path / "off", replace(shipped, logprobs=np.roll(shipped.logprobs, 1, axis=0)))
    outcome = replaycheck("model", "verify", "--golden", tmp_path / "off")
    assert outcome.code == 1
    assert outcome.out.startswith("FAIL")


@pytest.mark.usefixtures("one_group")
def test_a_subject_with_another_model_is_refuted(replaycheck: Run) -> None:
    assert replaycheck("model", "verify", "--subject", "null").code == 1
