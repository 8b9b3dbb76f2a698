"""Real files, where the environment says that they are: every one is recognised, imported and valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck.schema.trace import Group
from replaycheck.traces.importers import Context, Options, choose, import_groups
from replaycheck.traces.tree import request_paths

EXPECTED = {
    "weka": "weka",
    "mooncake": "mooncake",
    "oasst": "oasst",
    "sharegpt": "sharegpt",
    "azure": "azure",
    "claude_session": "claude-code",
    "tracelab_round_trace": "tracelab",
    "question": "mtbench",
    "mini_local": "mini-swe-agent",
    "humanevalfix-python-0": "swe-agent",
    "marshmallow-1867": "swe-agent",
    "aiperf_mooncake_sessions": "aiperf",
    "openai_chat_finetune_toy": "openai",
    # Its folder says token trace; what it holds is ShareGPT's form.
    "sglang_stress_suite_synthetic_trace": "sharegpt",
    "vllm_generate_multi_turn": "vllm",
}


def files(samples: Path) -> list[Path]:
    found = [path for path in sorted(samples.rglob("*")) if path.suffix in (".json", ".jsonl", ".csv", ".traj")]
    return [path for path in found if path.parent != samples and not path.name.startswith("reference_answer")]


def test_every_file_is_recognised_imported_and_valid(samples: Path, replaycheck: Callable, tmp_path: Path) -> None:
    for number, path in enumerate(files(samples)):
        out = tmp_path / f"{number}.jsonl"
        outcome = replaycheck(
            "trace", "import", "auto", path, "--out", out, "--max-tokens", 400, "--max-traces", 3, "--json"
        )
        assert outcome.code == 0, outcome.err
        name = json.loads(outcome.out)["files"][0]["format"]
        assert name == EXPECTED.get(path.name.split(".")[0], EXPECTED.get(path.parent.name)), path
        assert replaycheck("trace", "validate", out).code == 0


def whole(path: Path, **options: int) -> list[Group]:
    return list(import_groups(choose("auto", [path]), Context(Options(**options))))


@pytest.mark.parametrize("name", ["trace_0057", "trace_0228", "trace_0460", "trace_0504", "trace_0538"])
def test_weka_lengths_are_the_sources(samples: Path, name: str) -> None:
    path = samples / "weka" / f"{name}.json"
    source = json.loads(path.read_text(encoding="utf-8"))
    (group,) = whole(path)
    paths = request_paths(group)
    assert sum(len(path.answer) for path in paths) == source["totals"]["parent_tokens"]["output"]
    assert [path.prompt for path in paths] == [request["in"] for request in source["requests"]]


def test_mooncake_lengths_are_the_sources(samples: Path) -> None:
    path = samples / "mooncake" / "conversation_800.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:32]]
    group = whole(path, group_size=32, max_traces=1)[0]
    assert [path.prompt for path in request_paths(group)] == [row["input_length"] for row in rows]


def test_claude_calls_are_grouped(samples: Path) -> None:
    (group,) = whole(samples / "agent_logs" / "claude_session.jsonl")
    # 25 records of 10 calls, no fork.
    assert (len(group.requests), len(group.traces), group.traces[0].events) == (10, 1, ())


def test_oasst_forks(samples: Path) -> None:
    groups = whole(samples / "oasst" / "en_48_tree.jsonl")
    assert len(groups) == 48
    assert any(event.kind == "branch" for group in groups for event in group.traces[0].events)
