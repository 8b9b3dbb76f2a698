"""The table: rows of a provider, isolation of a kernel that dies, the terminal, the page, exit codes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from replaycheck.probes import isolated
from replaycheck.probes.isolated import Isolated, isolated_cells
from replaycheck.probes.properties import NAMES, PROPERTIES
from replaycheck.probes.subject import Subject
from replaycheck.probes.table import Request, probe_table, sizes_for
from replaycheck.probes.timed import Timed
from replaycheck.replay.environment import describe
from replaycheck.report.probe_html import probe_page
from replaycheck.report.probe_text import probe_text, time_lines
from replaycheck.schema.probe_table import ProbeTable
from replaycheck.schema.probe_times import ProbeTimes, RowTimes
from tests.probes import bad_kernels
from tests.probes.test_recording import noise

SPEC = "tests.probes.bad_kernels:provider"


@pytest.fixture(scope="module")
def probed() -> tuple[ProbeTable, ProbeTimes]:
    return probe_table(Request(only=("recurrent-cpu",)))


@pytest.fixture(scope="module")
def table(probed: tuple[ProbeTable, ProbeTimes]) -> ProbeTable:
    return probed[0]


@pytest.fixture(scope="module")
def times(probed: tuple[ProbeTable, ProbeTimes]) -> ProbeTimes:
    return probed[1]


def isolate(name: str) -> Isolated:
    provider = bad_kernels.provider()
    found = provider.named(name)
    return Isolated(SPEC, None, Subject(provider, found, sizes=sizes_for(found, "cpu")))


def test_our_kernels_fill_every_cell_for_both_kinds(table: ProbeTable) -> None:
    assert [(row.kernel, row.kind) for row in table.rows] == [
        ("ours/recurrent-cpu", "kda"),
        ("ours/recurrent-cpu", "gdn"),
    ]
    assert all(tuple(cell.property for cell in row.cells) == NAMES for row in table.rows)
    assert not table.broken


def test_the_same_request_gives_the_same_bytes(table: ProbeTable) -> None:
    again, _ = probe_table(Request(only=("recurrent-cpu",), workers=2))
    assert again.model_dump_json() == table.model_dump_json()


def test_a_process_that_dies_costs_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat", "restore", "alone"))
    cells = [each.cell for each in isolated_cells(isolate("bad/dying"))]
    assert [(cell.property, cell.verdict) for cell in cells] == [
        ("repeat", "exact"),
        ("restore", "broken"),
        ("alone", "exact"),
    ]
    assert cells[1].sentence == "crashed: the process ended with code 11"


def test_a_process_that_cannot_begin_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat", "alone"))
    lost = isolate("bad/honest")
    cells = [each.cell for each in isolated_cells(replace(lost, spec="tests.probes.bad_kernels:nowhere"))]
    assert [(cell.property, cell.verdict) for cell in cells] == [("repeat", "broken"), ("alone", "can't")]
    assert "has no 'nowhere'" in cells[0].sentence and "has no 'nowhere'" in cells[1].sentence


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat",))
    monkeypatch.setattr(isolated, "TIME_LIMITS", {"cpu": 0.2})
    (found,) = isolated_cells(isolate("bad/honest"))
    assert (found.cell.verdict, found.cell.sentence) == ("broken", "crashed: no answer within 0.2 s")


@pytest.mark.parametrize(
    ("limit", "words"), [(0.2, "not probed after that: no answer within 0.2 s"), (0.0, "no time was left")]
)
def test_a_limit_that_somebody_chose_is_no_fault_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, limit: float, words: str
) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat", "alone"))
    cells = [each.cell for each in isolated_cells(replace(isolate("bad/honest"), limit=limit))]
    assert {(cell.verdict, cell.sentence) for cell in cells} == {("can't", words)}


def test_a_lost_device_costs_the_property_that_lost_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What the child does: the cell is broken, nothing is probed after it, and the exit code says why."""
    subject = isolate("bad/honest").subject
    monkeypatch.setattr(isolated, "_subject", lambda task: (subject, {}))
    monkeypatch.setattr(isolated, "device_error", lambda device: "AcceleratorError: an illegal memory access")
    monkeypatch.setattr(isolated.sys, "stdin", io.StringIO('{"device": "cpu", "names": ["repeat", "alone"]}'))
    monkeypatch.setattr(isolated.os, "dup2", lambda *to: None)
    assert isolated.main() == isolated.DEVICE_LOST
    ready, *lines = capfd.readouterr().out.splitlines()
    (cell,) = (Timed.read(line).cell for line in lines)
    assert (ready, cell.property, cell.verdict) == ("ready", "repeat", "broken")
    assert cell.sentence == "crashed: AcceleratorError: an illegal memory access"


def test_after_a_lost_device_another_child_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat", "alone", "batch"))
    asked = []

    def child(of: Isolated, names: list[str], end: float) -> object:
        asked.append(list(names))
        cells = [Timed(isolated.crashed(name, "lost")) for name in names[: 1 if len(asked) == 1 else None]]
        return isolated._Ended(cells, "lost", begun=True, hung=False, device_lost=len(asked) == 1)

    monkeypatch.setattr(isolated, "_child", child)
    cells = [each.cell.property for each in isolated_cells(isolate("bad/honest"))]
    assert (cells, asked) == (["repeat", "alone", "batch"], [["repeat", "alone", "batch"], ["alone", "batch"]])


def test_a_row_of_another_provider_crashes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat",))
    said: list[str] = []
    table, times = probe_table(Request((SPEC,), only=("honest", "crashing"), workers=2), say=said.append)
    assert [(row.kernel, row.cells[0].verdict) for row in table.rows] == [
        ("bad/honest", "exact"),
        ("bad/crashing", "broken"),
    ]
    assert table.not_probed == {"bad/absent": "no file"}
    assert table.warnings == ("bad 1 is untested; tested: 2",)
    assert len(said) == 2 and [row.kernel for row in times.rows] == ["bad/honest", "bad/crashing"]


def test_a_child_gets_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded decays are probed there, under the name that the parent would give them."""
    monkeypatch.setattr(isolated, "NAMES", ("error",))
    table, _ = probe_table(Request((SPEC,), only=("honest",), recording=noise(tokens=80, heads=3, key=16, value=8)))
    named = {each.where.partition(" decay")[0] for each in table.rows[0].cells[0].numbers}
    assert {"recorded", "mild", "kimi"} <= named


def test_times_of_a_provider_are_sums_and_warm_only_if_all_rows_are() -> None:
    row = RowTimes(provider="a", kernel="a/x", kind="kda", first=2.0, warm=0.5, properties={})
    times = ProbeTimes(rows=(row, row, row.model_copy(update={"provider": "b", "warm": None})))
    assert times.providers() == {"a": (4.0, 1.0), "b": (2.0, None)}
    assert time_lines(times) == [
        "Time of a: 1.0 s after warm-up; 4.0 s with compilation and autotuning",
        "Time of b: 2.0 s, one pass over its kernels",
    ]


def test_the_terminal_table_fits_and_says_what_is_broken(table: ProbeTable, times: ProbeTimes) -> None:
    row = table.rows[0]
    cells = (
        row.cells[0].model_copy(update={"verdict": "broken", "example": "length 1: o differs\x1b[31m"}),
        *row.cells[1:],
    )
    spoiled = table.model_copy(update={"rows": (row.model_copy(update={"cells": cells}), *table.rows[1:])})
    text = probe_text(spoiled.model_copy(update={"autotune": 2}), times)
    assert max(map(len, text.splitlines())) <= 120
    assert "BROKEN ours/recurrent-cpu kda, error:" in text
    assert "smallest example: length 1: o differs\\x1b[31m" in text
    assert all(each.name in text for each in PROPERTIES)
    assert text.startswith("Kernels on cpu, seed 0, at most 2 autotuning configurations: 34 cells")
    assert "Time of ours: " in text


def test_the_page_stands_alone_and_escapes(table: ProbeTable, times: ProbeTimes) -> None:
    row = table.rows[0].model_copy(update={"kernel": "<script>alert(1)</script>"})
    tuned = times.model_copy(
        update={"rows": (times.rows[0].model_copy(update={"tuned": {"<b>": ("BV: 32", "BV: 64")}}),)}
    )
    page = probe_page(table.model_copy(update={"rows": (row,)}), tuned, describe({}, "cpu"))
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert "&lt;b&gt;" in page and "BV: 32 · BV: 64" in page and "Time of ours: " in page
    assert not re.search(r"(src|href)=", page)


def test_without_options_the_command_keeps_the_probes_of_a_run(replaycheck: Callable[..., Any], tmp_path: Path) -> None:
    outcome = replaycheck("probe", "kernels", "--only", "recurrent-cpu", "--out", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.err
    printed = json.loads(outcome.out)
    assert [probe["name"] for probe in printed["probes"]][:2] == [
        "kernels/recurrent-cpu/exact/mild",
        "kernels/recurrent-cpu/exact/kimi",
    ]
    assert {probe["verdict"] for probe in printed["probes"]} == {"pass"}
    written = tmp_path / "out"
    assert json.loads((written / "result.json").read_text()) == printed
    jsonschema.validate(printed, ProbeTable.model_json_schema())
    numbers = ProbeTable.model_validate(printed).rows[0].cell("error").numbers
    assert {"recorded decay", "learnt-0 decay", "mild decay, bf16 pool"} <= {each.where for each in numbers}
    assert {path.name for path in written.iterdir()} == {"environment.json", "probe.html", "result.json", "times.json"}
    again = replaycheck("probe", "kernels", "--out", written)
    assert (again.code, "already holds a run" in again.err) == (2, True)
    judged = replaycheck("gate", written)
    assert (judged.code, "holds a table of `replaycheck probe kernels`, not a run" in judged.err) == (2, True)


def test_a_planted_fault_breaks_cells_and_fails(replaycheck: Callable[..., Any]) -> None:
    outcome = replaycheck("probe", "kernels", "--only", "recurrent-cpu", "--fault", "beta-raw")
    assert outcome.code == 1
    assert "BROKEN ours/recurrent-cpu kda, activation: " in outcome.out
    assert "beta raw, without its sigmoid" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--kernels", "tests.probes.nowhere:provider"), 4, "install it or set PYTHONPATH"),
        (("--kernels", "nothing"), 2, "unknown kernels 'nothing'"),
        (("--kernels", "tests.probes.bad_kernels:empty"), 4, "none of its kernels can be loaded: bad/absent: no file"),
        (("--only", "nothing"), 2, "no kernel has that in its name"),
        (("--kernels", "fla", "--kernels-path", "/nowhere"), 4, "fla"),
        pytest.param(
            ("--device", "cuda"),
            4,
            "sees no GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_what_cannot_be_probed_is_one_line(
    replaycheck: Callable[..., Any], options: tuple[str, ...], code: int, words: str
) -> None:
    outcome = replaycheck("probe", "kernels", *options)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err and len(outcome.err.strip().splitlines()) == 1
