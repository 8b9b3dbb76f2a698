"""``assert_replay_consistent``: any form of a kernel is taken, and a failure says everything that is needed to find it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replaycheck.errors import UsageError
from replaycheck.replay.store import Run, read_result
from replaycheck.testing import assert_replay_consistent
from replaycheck.testing.given import named
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.providers import Provider, load_provider

SMALLEST = ["one_token_and_full_hit"]


def test_a_failure_names_share_element_values_allowed_seed_and_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm differs where a snapshot was rounded through bf16 before it was stored in an fp32 pool."""
    # A third of the test's time, and tests/lab has it.
    monkeypatch.setattr("replaycheck.replay.run.check_invariance", lambda *given: None)
    with pytest.raises(AssertionError) as caught:
        assert_replay_consistent(faults=["bf16-snapshot"], groups=SMALLEST, seed=3, out=tmp_path / "run")
    text = str(caught.value)
    result = read_result(Run(tmp_path / "run"))
    differ = sum(cell.bits_differ for cell in result.cells)
    assert text.startswith(
        "Replay is not consistent: 3 of 9 gates don't pass with kernels ours, recipe sglang, on cpu\n"
    )
    assert re.search(rf"Mismatched logits: {differ} / {result.summary.positions} positions \(\d+\.\d%\)", text)
    assert re.search(
        r"of a log-probability: 0\.\d+ nat at index "
        r"\(trace one_token_and_full_hit, branch \d, turn \d, position \d+\) \(up to 0 allowed\)",
        text,
    )
    found = re.search(r"cached: (-[\d.]+), computed: (-[\d.]+), in exact/.*/fp32", text)
    assert found and found[1] != found[2]
    assert re.search(r"of a state: [\d.]+ at index \(trace \S+, restore \d/\d@\d+, layer \d, head \d\) \(up to 0", text)
    assert "Gate exact/logits-bits fail" in text and "RC101" in text and "Seed: 3" in text
    assert "To repeat: pytest " in text and "test_replay.py::test_a_failure_names" in text
    assert text.endswith("On the command line: replaycheck run --preset kernel --seed 3 --fault bf16-snapshot")


def test_an_unknown_group_gives_the_choices() -> None:
    with pytest.raises(UsageError, match="there is no group 'none'; choose 'chat_long_system'"):
        assert_replay_consistent(groups=["none"])


def test_a_function_needs_the_recipe_that_it_computes() -> None:
    with pytest.raises(UsageError, match="say with recipe=NAME"):
        assert_replay_consistent(CHUNK_EMULATOR.forward)


def test_a_provider_is_found_by_its_text_while_it_is_needed() -> None:
    provider = Provider("mine", ())
    with named(provider) as first:
        assert load_provider(first) is provider
        with named(provider) as second:
            assert first != second
    with pytest.raises(ValueError, match="has no 'given_"):
        load_provider(first)
