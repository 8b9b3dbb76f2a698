"""A step of GitHub Actions: annotations that land on the gate's line, their limits and escapes, and the step's page."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaycheck.report.github
from replaycheck.replay.store import Run, read_result
from replaycheck.report.github import annotation_lines
from replaycheck.report.github_step import CAP, on_github, publish, repository
from replaycheck.schema.result import GateResult

Write = Callable[..., Path]


@pytest.fixture
def gate(write_run: Write) -> GateResult:
    """A failed gate of mine.toml, line 7."""
    failed = read_result(Run(write_run(fault=True))).gates[0]
    return failed.model_copy(update={"file": "mine.toml", "name": "bits", "line": 7, "sentence": "12 differ."})


def changed(gate: GateResult, **changes: Any) -> GateResult:
    return gate.model_copy(update=changes)


def test_its_examples_run() -> None:
    assert doctest.testmod(replaycheck.report.github).failed == 0


def test_a_failed_gate_points_at_its_line(gate: GateResult, tmp_path: Path) -> None:
    (line,) = annotation_lines([gate], {"mine.toml": tmp_path / "ci" / "mine.toml"}, tmp_path)
    assert line.startswith(
        "::error file=ci/mine.toml,line=7,title=replaycheck%3A gate mine.toml/bits fails::12 differ."
    )


@pytest.mark.parametrize("files", [{"mine.toml": Path("/elsewhere/mine.toml")}, {}], ids=["outside", "unknown"])
def test_a_file_outside_the_repository_gives_the_message_alone(
    gate: GateResult, tmp_path: Path, files: dict[str, Path]
) -> None:
    (line,) = annotation_lines([gate], files, tmp_path)
    assert line.startswith("::error title=replaycheck%3A gate mine.toml/bits fails::")


def test_a_link_out_of_the_repository_is_followed(gate: GateResult, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "mine.toml").touch()
    (tmp_path / "repo" / "mine.toml").symlink_to(tmp_path / "mine.toml")
    (line,) = annotation_lines([gate], {"mine.toml": tmp_path / "repo" / "mine.toml"}, tmp_path / "repo")
    assert "file=" not in line


def test_passed_waived_and_unjudged_gates_are_silent(gate: GateResult) -> None:
    quiet = [changed(gate, verdict=verdict) for verdict in ("pass", "waived", "not-judged")]
    assert annotation_lines(quiet, {}) == []


@pytest.mark.parametrize("verdict", ["vacuous", "inconclusive"])
def test_what_proves_nothing_is_a_warning(gate: GateResult, verdict: str) -> None:
    (line,) = annotation_lines([changed(gate, verdict=verdict)], {})
    assert line.startswith(f"::warning title=replaycheck%3A gate mine.toml/bits is {verdict}::")


@pytest.mark.parametrize(("count", "lines"), [(9, 9), (10, 10), (40, 10)])
def test_nine_and_one_that_counts_the_others(gate: GateResult, count: int, lines: int) -> None:
    found = annotation_lines([changed(gate, name=f"g{i}") for i in range(count)], {})
    assert len(found) == lines
    assert found[9:] == [] or found[9].startswith(
        f"::error title=replaycheck::{count - 9} more gates in report.html: g9"
    )


def test_the_worst_nine_are_shown(gate: GateResult) -> None:
    value = gate.value
    close = [
        changed(gate, name=f"close-{i}", bound=10.0, value=value.model_copy(update={"value": 11.0})) for i in range(9)
    ]
    far = changed(gate, name="far", bound=10.0, value=value.model_copy(update={"value": 99.0}))
    silent = changed(gate, name="unsure", verdict="inconclusive")
    found = annotation_lines([silent, *close, far], {})
    assert "/far fails" in found[0]
    assert "2 more gates in report.html: close-8, unsure" in found[9]


def test_text_cant_end_the_command_or_start_another(gate: GateResult, tmp_path: Path) -> None:
    hostile = "50 %\r\n::stop-commands::x,y:z%0A"
    bad = changed(gate, sentence=hostile, name=hostile, file=hostile)
    (line,) = annotation_lines([bad], {hostile: tmp_path / "a,b:%.toml"}, tmp_path)
    head, _, message = line.removeprefix("::error ").partition("::")
    assert "\n" not in line and "\r" not in line
    assert head == (
        "file=a%2Cb%3A%25.toml,line=7,title=replaycheck%3A gate "
        r"50 %25\r\n%3A%3Astop-commands%3A%3Ax%2Cy%3Az%250A/50 %25\r\n%3A%3Astop-commands%3A%3Ax%2Cy%3Az%250A fails"
    )
    assert message.startswith(r"50 %25\r\n::stop-commands::x,y:z%250A")


def test_with_json_annotations_leave_stdout_alone(gate: GateResult, capsys: pytest.CaptureFixture[str]) -> None:
    publish(True, [gate], {}, as_json=True)
    out, err = capsys.readouterr()
    assert (out, err[:8]) == ("", "::error ")
    publish(True, [gate], {}, as_json=False)
    assert capsys.readouterr().out.startswith("::error ")


def test_the_summary_is_appended_to_the_steps_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    ours = tmp_path / "summary.md"
    ours.write_text("## ours ü\n", encoding="utf-8")
    publish(True, [], {}, as_json=False, summary=ours)
    assert page.read_text(encoding="utf-8") == "before\n## ours ü\n"


@pytest.mark.parametrize(("before", "written"), [(CAP - 5, True), (CAP - 4, False)], ids=["full", "over"])
def test_a_page_stays_under_its_cap(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: int,
    written: bool,
) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(b"x" * before)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    ours = tmp_path / "summary.md"
    ours.write_text("ours\n")
    publish(True, [], {}, as_json=False, summary=ours)
    assert (page.stat().st_size == CAP) is written
    assert ("isn't added" in capsys.readouterr().err) is not written


def test_a_page_that_cant_be_written_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    ours = tmp_path / "summary.md"
    ours.write_text("ours\n")
    publish(True, [], {}, as_json=False, summary=ours)
    assert "can't be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "variable", "on"),
    [(None, "true", True), (None, "", False), (None, "false", False), (True, "", True), (False, "true", False)],
)
def test_on_inside_actions_or_when_asked(
    monkeypatch: pytest.MonkeyPatch, asked: bool | None, variable: str, on: bool
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", variable)
    assert on_github(asked) is on


def test_elsewhere_nothing_is_printed_or_written(
    gate: GateResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    publish(None, [gate], {}, as_json=False, summary=tmp_path / "summary.md")
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "page.md").exists()


def test_the_repository_is_the_workspace_or_the_folder_with_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", "/w")
    assert repository() == Path("/w")
    monkeypatch.delenv("GITHUB_WORKSPACE")
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert repository() == tmp_path
