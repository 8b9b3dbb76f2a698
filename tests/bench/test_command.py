"""The verb: text and JSON of a record, refusals, and one tiny run from end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.bench.figures import figure
from replaycheck.bench.table import bench_text, number, target_line
from replaycheck.schema.bench import Bench, Target

RECORD = Bench(
    kind="run",
    device="cpu",
    device_name="a processor, 2 cores",
    versions={"torch": "2.13.0", "triton": None},
    settings={"dtype": "fp32"},
    figures=(figure("lab", "prefill", "token/s", [1000.0, 3000.0, 2000.0]), figure("lab", "peak", "MiB", [0.5])),
    targets=(
        Target(name="decode", unit="×", wanted=20.0, at_least=True, found=7.5),
        Target(name="snapshot", unit="%", wanted=2.0, at_least=False, found=1.25),
    ),
    notes=("fla: not there",),
)


def test_text_says_where_it_ran_what_was_found_and_what_is_missing() -> None:
    lines = bench_text(RECORD).splitlines()
    assert lines[0] == "bench run on cpu (a processor, 2 cores)" and lines[1] == "torch 2.13.0"
    assert "dtype fp32" in lines[2]
    assert lines[4].split() == ["lab", "prefill", "2,000", "1,000", "3,000", "token/s", "3"]
    assert len(lines[3]) == len(lines[4]), "columns line up"
    assert "missed by 12.5 ×: decode: 7.5 × (wanted ≥ 20 ×)" in lines and lines[-1] == "note: fla: not there"


def test_a_target_that_is_met_is_shown_too() -> None:
    assert target_line(RECORD.targets[1]) == "met: snapshot: 1.25 % (wanted ≤ 2 %)"


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (0.012345, "0.0123"), (999.4, "999"), (74700.0, "74,700")])
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_the_record_survives_its_own_json() -> None:
    assert Bench.model_validate_json(json.dumps(RECORD.model_dump(mode="json"), allow_nan=False)) == RECORD


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["kernels", "--kernels", "fla"], 2, "--device cuda"),
        (["kernels", "--kernels", "ours,nobody", "--device", "cpu"], 2, "nobody"),
        (["kernels", "--runs", 1], 2, "--runs"),
        (["run", "--prompt", 3], 2, "a prompt needs 4 tokens"),
        (["run", "--sessions", 0], 2, "--sessions"),
        (["run", "--dtype", "fp64"], 2, "--dtype"),
        (["run", "--model", "nowhere"], 2, "nowhere"),
        (["run", "--kernels", "nobody"], 2, "unknown kernels"),
    ],
)
def test_what_it_refuses(replaycheck: Callable[..., Any], arguments: list[object], code: int, words: str) -> None:
    outcome = replaycheck("bench", *arguments)
    assert (outcome.code, outcome.out) == (code, "") and words in outcome.err


@pytest.mark.parametrize("verb", ["run", "kernels"])
def test_a_gpu_that_is_not_there_is_the_environment(
    replaycheck: Callable[..., Any], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = replaycheck("bench", verb, "--device", "cuda")
    assert outcome.code == 4 and "sees no GPU" in outcome.err


def test_a_folder_that_is_taken_is_refused_before_anything_runs(
    replaycheck: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    outcome = replaycheck("bench", "run", "--model", model, "--out", tmp_path)
    assert outcome.code == 2 and "isn't empty" in outcome.err and [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_a_tiny_run_from_end_to_end(replaycheck: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    sizes = ["--sessions", 3, "--alone", 1, "--turns", 1, "--prompt", 8, "--answer", 3, "--repeats", 2]
    outcome = replaycheck(
        "bench", "run", "--model", model, *sizes, "--against", "nothing", "--no-sharing", "--out", out, "--json"
    )
    assert outcome.code == 0, outcome.err
    found = Bench.model_validate(json.loads(outcome.out))
    assert Bench.model_validate_json((out / "bench.json").read_text()) == found
    assert json.loads((out / "environment.json").read_text())["inputs"]["sessions"] == "3 (1 one at a time)"
    rates = {(each.subject, each.quantity): each.runs for each in found.figures}
    assert rates["lab, all sessions at once", "decode"] == rates["lab, one session at a time", "positions"] == 2
    assert found.targets == () and found.versions["torch"]
