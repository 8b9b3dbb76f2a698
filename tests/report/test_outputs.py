"""What people read besides the page: the terminal, the answer in words, and the verb ``report``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck.cli.main import invoke
from replaycheck.errors import ExitCode
from replaycheck.replay.store import Run, read_result
from replaycheck.report.terminal import summary_text
from replaycheck.report.verdict import answer
from replaycheck.schema.arm import Effect
from replaycheck.schema.result import Finding, Result

Write = Callable[..., Path]


def result_of(run: Path) -> Result:
    return read_result(Run(run))


def test_the_terminal_gives_verdict_evidence_matrix_finding_gates_and_path(write_run: Write) -> None:
    run = write_run(fault=True)
    text = summary_text(result_of(run), run)
    assert text.startswith("FAIL  suite quick")
    assert "288 of 288 expected hits proven" in text
    assert re.search(r"FAIL +fp32 +exact +split-rounded, warm", text)
    assert re.search(r"same +bf16 +exact", text)
    assert "RC101 extra rounding through bf16 before the store. In the fp32 and fp16 pools" in " ".join(text.split())
    assert re.search(r"fail warm-is-split-rounded: value [\d,]+, bound 0", text)
    assert "replaycheck run quick --seed 0 --fault bf16-snapshot" in text
    assert str(run / "report.html") in text


def test_the_terminal_keeps_under_40_lines_whatever_was_found(write_run: Write) -> None:
    result = result_of(write_run(fault=True))
    many = tuple(
        Finding(code=f"RC{n}", title="t" * 300, sentence="word " * 2000, evidence=(), reproduce="x")
        for n in range(200, 260)
    )
    worst = result.model_copy(update={"findings": many, "gates": result.gates * 30, "faults": ("a", "b")})
    lines = summary_text(worst, Path("run")).splitlines()
    assert len(lines) < 40
    assert "also found: RC201" in "\n".join(lines)


def test_hostile_text_cant_steer_the_terminal(write_run: Write) -> None:
    text = summary_text(result_of(write_run(suite="\x1b[2J\u202ex")), Path("run"))
    assert not re.search("[\x1b\u202e]", text)


def test_no_is_said_only_where_cold_and_warm_have_the_same_bits(write_run: Write) -> None:
    result = result_of(write_run())
    assert answer(result).short == "Only by rounding"
    assert "the most likely token at" in answer(result).sentence
    equal = tuple(cell.model_copy(update={"bits_differ": 0}) for cell in result.cells)
    assert answer(result.model_copy(update={"cells": equal})).short == "No"


def test_nothing_is_claimed_without_the_exact_comparison(write_run: Write) -> None:
    result = result_of(write_run())
    without = tuple(cell for cell in result.cells if cell.effect is not Effect.EXACT)
    assert answer(result.model_copy(update={"cells": without})).short == "Not beyond the gates"


def test_differing_bits_are_yes_even_if_every_gate_passes(write_run: Write) -> None:
    faulty = result_of(write_run(fault=True))
    summary = faulty.summary.model_copy(update={"verdict": "pass"})
    assert answer(faulty.model_copy(update={"summary": summary})).short == "Yes, within the gates"


@pytest.mark.parametrize("verdict", ["vacuous", "inconclusive"])
def test_without_evidence_the_answer_is_neither_yes_nor_no(write_run: Write, verdict: str) -> None:
    result = result_of(write_run())
    summary = result.summary.model_copy(update={"verdict": verdict})
    assert answer(result.model_copy(update={"summary": summary})).short.startswith("Can't say")


def test_a_failed_gate_does_not_hide_what_the_exact_cells_say(write_run: Write) -> None:
    """A kernel outside its recipe fails a run in which storing and restoring changed nothing."""
    result = read_result(Run(write_run()))
    summary = result.summary.model_copy(update={"verdict": "fail"})
    failed = result.model_copy(update={"summary": summary})
    assert answer(failed).short == "Not by storing and restoring, but a gate failed"
    assert answer(failed.model_copy(update={"cells": ()})).short == "Can't say: a gate failed"


def test_report_writes_three_files_again_and_prints_the_path(
    write_run: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run()
    assert invoke(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"
    assert {"report.html", "summary.md", "junit.xml"} <= {path.name for path in run.iterdir()}
    assert invoke(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(run / "report.html")}


def test_report_of_a_folder_that_isnt_a_run_is_a_usage_error_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("x")
    assert invoke(["report", str(tmp_path)]) == ExitCode.USAGE
    assert str(tmp_path) in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_damaged_run_keeps_the_report_it_had(write_run: Write, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run()
    (run / "report.html").write_text("old")
    (run / "pairs" / "group.parquet").write_bytes(b"PAR1")
    assert invoke(["report", str(run)]) == ExitCode.USAGE
    assert (run / "report.html").read_text() == "old"
    assert "group.parquet" in capsys.readouterr().err


def test_a_report_needs_no_torch() -> None:
    code = "import sys, replaycheck.report.write, replaycheck.diagnose.findings; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
