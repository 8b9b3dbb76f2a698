"""``probe state`` from the command line: what it prints, what it refuses, its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema

from replaycheck.report.state_text import state_text
from replaycheck.schema.state_table import StateRow, StateTable
from tests.conftest import Outcome

ROW = StateRow(name="copy-fork", part="copies", required="same bytes", verdict="exact", sentence="30 copies")


def test_json_is_one_object_of_the_schema(replaycheck: Callable[..., Outcome]) -> None:
    done = replaycheck("probe", "state", "--only", "plan-vllm", "--json")
    assert done.code == 0, done.err
    table = json.loads(done.out)
    jsonschema.validate(table, json.loads(replaycheck("schema", "state").out))
    assert [row["name"] for row in table["rows"]] == ["plan-vllm-boundary", "plan-vllm-commit"]


def test_a_planted_cast_is_broken_and_exit_code_1(replaycheck: Callable[..., Outcome]) -> None:
    done = replaycheck("probe", "state", "--only", "double", "--fault", "via-bf16")
    assert done.code == 1, done.err
    assert "broken" in done.out and "Smallest example:" in done.out and "with via-bf16" in done.out


def test_a_fault_of_the_arithmetic_is_sent_to_the_other_probe(replaycheck: Callable[..., Outcome]) -> None:
    done = replaycheck("probe", "state", "--fault", "beta-raw")
    assert (done.code, done.out) == (2, "")
    assert "replaycheck probe kernels" in done.err


def test_a_part_that_no_row_has_lists_the_rows(replaycheck: Callable[..., Outcome]) -> None:
    done = replaycheck("probe", "state", "--only", "nothing-like-it")
    assert done.code == 2 and "copy-restore, copy-fork" in done.err


def test_the_text_has_a_line_a_row_and_says_what_is_required_of_a_broken_one() -> None:
    wrong = ROW.model_copy(update={"name": "conv-slot", "verdict": "broken", "example": "step 3: \x1b[31mred"})
    cannot = ROW.model_copy(update={"name": "triton-verify", "verdict": "can't", "sentence": "no GPU"})
    table = StateTable(device="cpu", recipe="sglang", seed=0, faults=("conv-late",), rows=(ROW, wrong, cannot))
    lines = state_text(table).splitlines()
    assert lines[0] == "probe state: cpu, recipe sglang, seed 0, with conv-late"
    assert lines[2].split() == ["exact", "copies", "copy-fork", "30", "copies"]
    text = " ".join(" ".join(lines).split())
    assert "30 copies. Required: same bytes. Smallest example: step 3:" in text
    assert "\x1b" not in text
    assert lines[-1] == "3 operations: 1 exact, 1 broken, 1 can't."
