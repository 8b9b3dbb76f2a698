"""A tiny suite file: one matrix line, two small groups of the quick suite, so that a whole run takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.assets import trace_suite
from replaycheck.traces.read import read_groups
from replaycheck.traces.write import write_groups
from tests.suites import suite_text

GROUPS = ("one_token_and_full_hit", "edges_64")

SUITE = suite_text("tiny", "tiny.jsonl", ("fp32", "bf16", "fp16"), answers="prefilled", policy="every = 64")


@pytest.fixture(scope="session")
def tiny_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_groups(folder / "tiny.jsonl", [g for g in read_groups(trace_suite("quick")) if g.group in GROUPS])
    (folder / "tiny.toml").write_text(SUITE)
    return folder / "tiny.toml"
