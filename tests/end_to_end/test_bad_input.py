"""What a user can get wrong: one clear sentence, the right exit code, and nothing that existed is touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.assets import model_dir, trace_suite

Run = Callable[..., Any]


def lines(outcome: Any) -> list[str]:
    """The errors that were printed; warnings and progress left out."""
    return [line for line in outcome.err.splitlines() if line.startswith("replaycheck: error:")]


def expect(outcome: Any, code: int, *words: str) -> None:
    assert outcome.code == code, outcome.err
    (line,) = lines(outcome)
    for word in words:
        assert word in line, line
    assert "Traceback" not in outcome.err


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_dir(None), tmp_path / "model"))


def spoilt(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    group = json.loads(trace_suite("quick").read_text().splitlines()[0])
    change(group)
    path = tmp_path / "bad.jsonl"
    path.write_text(trace_suite("quick").read_text().splitlines()[1] + "\n" + json.dumps(group) + "\n")
    return path


def test_malformed_jsonl_names_file_and_line(tmp_path: Path, replaycheck: Run) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"schema": \n')
    expect(replaycheck("run", "--traces", path, "--out", tmp_path / "run"), 2, f"{path}:1")


def test_an_unknown_event_names_file_line_and_the_kinds(tmp_path: Path, replaycheck: Run) -> None:
    def change(group: dict[str, Any]) -> None:
        group["traces"][0]["events"] = [{"kind": "teleport", "turn": "a1"}]

    path = spoilt(tmp_path, change)
    expect(replaycheck("run", "--traces", path, "--out", tmp_path / "run"), 2, f"{path}:2", "teleport", "branch")


def test_a_token_outside_the_vocabulary_is_named(tmp_path: Path, replaycheck: Run) -> None:
    def change(group: dict[str, Any]) -> None:
        group["traces"][0]["turns"][0]["tokens"][1] = 9999

    path = spoilt(tmp_path, change)
    expect(replaycheck("run", "--traces", path, "--out", tmp_path / "run"), 2, f"{path}:2", "9999")


def test_missing_weights(model: Path, tmp_path: Path, replaycheck: Run) -> None:
    (model / "model.safetensors").unlink()
    expect(replaycheck("run", "--model", model, "--out", tmp_path / "run"), 2, "model.safetensors", "missing")


def test_truncated_weights(model: Path, tmp_path: Path, replaycheck: Run) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    expect(replaycheck("run", "--model", model, "--out", tmp_path / "run"), 2, "model.safetensors")


def test_a_model_folder_that_isnt_there(tmp_path: Path, replaycheck: Run) -> None:
    expect(replaycheck("run", "--model", tmp_path / "nothing"), 2, "nothing")


def test_an_output_folder_that_is_no_run_stays_as_it_was(tmp_path: Path, replaycheck: Run) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.txt").write_text("do not lose me")
    expect(replaycheck("run", "--out", out), 2, "thesis", "--out")
    assert [path.name for path in out.iterdir()] == ["chapter.txt"]
    assert (out / "chapter.txt").read_text() == "do not lose me"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--preset", "nonsense"), ("nonsense", "quick")),
        (("--fault", "nonsense"), ("nonsense", "selftest --list")),
        (("--recipe", "nonsense"), ("nonsense", "sglang")),
        (("--gates", "nonsense"), ("nonsense", "exact")),
        (("--traces", "suite:nonsense"), ("nonsense", "quick")),
    ],
    ids=lambda value: value[0] if isinstance(value[0], str) and value[0].startswith("--") else "",
)
def test_unknown_names_are_refused_with_the_choices_or_where_they_are(
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, replaycheck: Run
) -> None:
    expect(replaycheck("run", *options, "--out", tmp_path / "run"), 2, *words)
    assert not (tmp_path / "run").exists()


def test_an_unknown_pool_dtype_is_refused_with_the_choices(tiny_suite: Path, tmp_path: Path, replaycheck: Run) -> None:
    suite = tmp_path / "bad.toml"
    suite.write_text(tiny_suite.read_text().replace('"fp16"', '"int4"'))
    expect(replaycheck("run", suite, "--out", tmp_path / "run"), 2, "bad.toml", "fp32")


def test_an_unknown_finding_code_is_refused_with_where_all_are(replaycheck: Run) -> None:
    expect(replaycheck("explain", "RC999"), 2, "RC999", "`replaycheck explain`")


def test_cuda_without_a_gpu_is_an_environment_error(
    tmp_path: Path, replaycheck: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    expect(replaycheck("run", "--device", "cuda", "--out", tmp_path / "run"), 4, "GPU")
