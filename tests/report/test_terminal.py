"""The terminal summary: plain without a terminal, under 40 lines, with the first divergence and what would have passed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from replaycheck.replay.store import Run, read_result, read_table, write_whole
from replaycheck.report.privacy import mark_text
from replaycheck.report.terminal import decorated, summary_text
from replaycheck.schema.arm import Effect
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.result import Result

Write = Callable[..., Path]


def result_of(run: Path) -> Result:
    return read_result(Run(run))


def test_the_first_divergence_of_what_must_be_equal_is_told_in_full(write_run: Write) -> None:
    run = write_run(fault=True)
    mark_text(Run(run), "public")
    text = " ".join(summary_text(result_of(run), run).split())
    rows = read_table(Run(run), "divergences")
    exact = rows[rows["cell"].str.startswith("exact/") & ~rows["censored"]]
    found = re.search(
        r"First divergence, exact (\S+): trace (trace-\d), branch 0, turn 1, position ([\d,]+), (\d+) tokens", text
    )
    assert found is not None
    assert f"exact/{found[1]}" in set(exact["cell"])
    assert int(found[3].replace(",", "")) in set(exact["position"])
    assert "(state written as interior)" in text
    assert re.search(r"\|Δ log p\| \S+ nat there, mean \S+ before and \S+ after it", text)


def test_a_run_without_divergences_says_nothing_about_them(write_run: Write) -> None:
    run = write_run()
    rows = read_table(Run(run), "divergences").assign(censored=True)
    write_whole(Run(run), "divergences", [to_arrow("divergences", rows)])
    assert "First divergence" not in summary_text(result_of(run), run)


def test_a_failed_gate_says_which_bound_would_have_passed(write_run: Write) -> None:
    run = write_run(fault=True)
    result = result_of(run)
    gates = tuple(gate.model_copy(update={"passing_bound": gate.value.value}) for gate in result.gates)
    assert re.search(
        r"fail one-cast: value (\S+), bound 0, n = 6, \1 would pass",
        summary_text(result.model_copy(update={"gates": gates}), run),
    )


@pytest.mark.parametrize("how", ["Not judged: ", "Not judged, "])
def test_a_gate_that_isnt_judged_says_why(write_run: Write, how: str) -> None:
    run = write_run()
    result = result_of(run)
    other = result.gates[0].model_copy(update={"verdict": "not-judged", "sentence": f"{how}every pool is bf16."})
    text = summary_text(result.model_copy(update={"gates": (other, *result.gates[1:])}), run)
    assert f"not judged {other.name}: every pool is bf16." in text


def test_what_doesnt_fit_is_counted(write_run: Write) -> None:
    run = write_run(fault=True)
    result = result_of(run)
    notes = tuple(f"cell: reason number {at}" for at in range(50))
    lines = summary_text(result.model_copy(update={"not_checked": notes}), run).splitlines()
    assert len(lines) < 40
    assert any(re.fullmatch(r"and \d+ more lines in the report", line) for line in lines)
    assert any(line.startswith("Report:") for line in lines)


def test_the_ratio_to_the_floor_is_of_tails(write_run: Write) -> None:
    run = write_run()
    result = result_of(run)
    header, *rows = (
        line for line in summary_text(result, run).splitlines() if re.match(r" +pool|(same)? +(fp32|bf16|fp16) ", line)
    )
    assert "×F_num" in header
    assert all(re.search(r" – +\d", row) for row in rows), "without a floor there is no ratio"
    assert Effect.TOTAL in {cell.effect for cell in result.cells}


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("1", False)])
def test_colour_is_only_decoration(
    write_run: Write, monkeypatch: pytest.MonkeyPatch, no_color: str | None, coloured: bool
) -> None:
    if no_color is None:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", no_color)
    run = write_run(fault=True)
    plain = summary_text(result_of(run), run)
    assert "\x1b" not in plain
    shown = decorated(plain)
    assert ("\x1b[31m" in shown) == coloured
    assert click.unstyle(shown) == plain


@pytest.mark.parametrize("width", [100, 80, 60])
@pytest.mark.parametrize("fault", [False, True], ids=["clean", "faulty"])
def test_it_fits_the_terminal_and_forty_lines(write_run: Write, width: int, fault: bool) -> None:
    run = write_run(fault=fault)
    lines = summary_text(result_of(run), run, width).splitlines()
    paths = ("Report:", "Explain:", "Repeat:")
    assert [line for line in lines if len(line) > width and not line.startswith(paths)] == []
    assert len(lines) < 40
    (headings,) = (line for line in lines if "positions differ" in line)
    assert ("compares" in headings) == (width == 100)
    assert "parted" in headings
