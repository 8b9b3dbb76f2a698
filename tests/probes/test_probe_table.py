"""The table: rows of a provider, isolation of a kernel that dies, the terminal, the page, exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from replaycheck.probes import isolated
from replaycheck.probes.isolated import Isolated, isolated_cells
from replaycheck.probes.properties import NAMES, PROPERTIES
from replaycheck.probes.subject import Subject
from replaycheck.probes.table import Request, probe_table, sizes_for
from replaycheck.replay.environment import describe
from replaycheck.report.probe_html import probe_page
from replaycheck.report.probe_text import probe_text
from replaycheck.schema.probe_table import ProbeTable
from tests.probes import bad_kernels

SPEC = "tests.probes.bad_kernels:provider"


@pytest.fixture(scope="module")
def table() -> ProbeTable:
    return probe_table(Request(only=("recurrent-torch",)))


def isolate(name: str) -> Isolated:
    provider = bad_kernels.provider()
    found = provider.named(name)
    return Isolated(SPEC, None, Subject(provider, found, sizes=sizes_for(found, "cpu")))


def test_our_kernels_fill_every_cell_for_both_kinds(table: ProbeTable) -> None:
    assert [(row.kernel, row.kind) for row in table.rows] == [
        ("ours/recurrent-torch", "kda"),
        ("ours/recurrent-torch", "gdn"),
    ]
    assert all(tuple(cell.property for cell in row.cells) == NAMES for row in table.rows)
    assert not table.broken


def test_the_same_request_gives_the_same_bytes(table: ProbeTable) -> None:
    assert probe_table(Request(only=("recurrent-torch",))).model_dump_json() == table.model_dump_json()


def test_a_process_that_dies_costs_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat", "restore", "alone"))
    cells = list(isolated_cells(isolate("bad/dying")))
    assert [(cell.property, cell.verdict) for cell in cells] == [
        ("repeat", "exact"),
        ("restore", "broken"),
        ("alone", "exact"),
    ]
    assert cells[1].sentence == "crashed: the process ended with code 11"


def test_a_process_that_cannot_begin_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat", "alone"))
    lost = isolate("bad/honest")
    cells = list(isolated_cells(replace(lost, spec="tests.probes.bad_kernels:nowhere")))
    assert [(cell.property, cell.verdict) for cell in cells] == [("repeat", "broken"), ("alone", "can't")]
    assert "has no 'nowhere'" in cells[0].sentence and "has no 'nowhere'" in cells[1].sentence


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat",))
    monkeypatch.setattr(isolated, "TIME_LIMIT", 0.2)
    (cell,) = isolated_cells(isolate("bad/honest"))
    assert (cell.verdict, cell.sentence) == ("broken", "crashed: no answer within 0.2 s")


def test_a_row_of_another_provider_crashes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "NAMES", ("repeat",))
    table = probe_table(Request((SPEC,), only=("honest", "crashing")))
    assert {row.kernel: row.cells[0].verdict for row in table.rows} == {"bad/honest": "exact", "bad/crashing": "broken"}
    assert table.not_probed == {"bad/absent": "no file"}
    assert table.warnings == ("bad 1 is untested; tested: 2",)


def test_the_terminal_table_fits_and_says_what_is_broken(table: ProbeTable) -> None:
    row = table.rows[0]
    cells = (
        row.cells[0].model_copy(update={"verdict": "broken", "example": "length 1: o differs\x1b[31m"}),
        *row.cells[1:],
    )
    spoiled = table.model_copy(update={"rows": (row.model_copy(update={"cells": cells}), *table.rows[1:])})
    text = probe_text(spoiled)
    assert max(map(len, text.splitlines())) <= 120
    assert "BROKEN ours/recurrent-torch kda, error:" in text
    assert "smallest example: length 1: o differs\\x1b[31m" in text
    assert all(each.name in text for each in PROPERTIES)


def test_the_page_stands_alone_and_escapes(table: ProbeTable) -> None:
    row = table.rows[0].model_copy(update={"kernel": "<script>alert(1)</script>"})
    page = probe_page(table.model_copy(update={"rows": (row,)}), describe({}, "cpu"))
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "default-src 'none'" in page
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
    assert json.loads((written / "probe.json").read_text()) == printed
    assert {path.name for path in written.iterdir()} == {"environment.json", "probe.html", "probe.json"}
    again = replaycheck("probe", "kernels", "--out", written)
    assert (again.code, "already holds a run" in again.err) == (2, True)


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
