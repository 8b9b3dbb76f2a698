"""Which architectures there are, processes that die, what follows from what, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replaycheck.architectures import isolated, sweep
from replaycheck.architectures.discover import CONTROLS, architectures, select
from replaycheck.architectures.isolated import Task, sweep_one
from replaycheck.architectures.operations import OPERATIONS
from replaycheck.architectures.sweep import Request
from replaycheck.errors import UsageError
from replaycheck.report.architectures_html import architectures_page
from replaycheck.report.architectures_text import architectures_text
from replaycheck.schema.architectures import (
    ArchitectureCell,
    ArchitectureOperation,
    ArchitectureRow,
    ArchitectureTable,
)
from replaycheck.schema.environment import Environment


def row(*cells: ArchitectureCell, name: str = "mamba2", error: str = "") -> ArchitectureRow:
    return ArchitectureRow(
        name=name, model="Model", control=False, parameters=1, floor=1e-6, error=error, cells=tuple(cells)
    )


def fault(operation: str, **more: object) -> ArchitectureCell:
    return ArchitectureCell(
        operation=operation,
        verdict="fault",
        size=0.25,
        where="cut into 1, 132",
        first_wrong=1,
        wrong=131,
        compared=133,
    ).model_copy(update=more)


def test_the_release_is_asked_and_not_a_list() -> None:
    found = architectures()
    assert {"kimi_linear", "mamba2", "lfm2", "rwkv", "xlstm", "minimax"} <= set(found)
    assert not {"llama", "qwen3", "gemma3_text", "mixtral"} & set(found)
    assert select(("all",)) == (*found, *CONTROLS)


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(
        UsageError,
        match=r"no causal language model 'mamba9' \(did you mean 'mamba' or 'mamba2'\?\); choose all, .*'mamba2'",
    ):
        select(("mamba9",))


def test_an_operation_that_kills_its_process_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def child(task: Task, operations: Sequence[str], end: float) -> tuple[list[str], str]:
        calls.append(tuple(operations))
        done = operations[:1] if len(calls) == 1 else operations
        cells = [ArchitectureCell(operation=name, verdict="exact").model_dump_json() for name in done]
        return [row().model_dump_json(), *cells], "Segmentation fault"

    monkeypatch.setattr(isolated, "_child", child)
    found = sweep_one(Task("mamba2", "fp32", 0, ("pieces", "fork", "reset")))
    assert [(cell.operation, cell.verdict) for cell in found.cells] == [
        ("pieces", "exact"),
        ("fork", "crashed"),
        ("reset", "exact"),
    ]
    assert found.cells[1].sentence == "Segmentation fault" and calls[1] == ("reset",)


def test_a_model_that_cannot_be_built_is_a_row_without_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_child", lambda *_: ([row(error="ValueError: no").model_dump_json()], ""))
    found = sweep_one(Task("mamba2", "fp32", 0, ("pieces",)))
    assert found.error == "ValueError: no" and not found.cells


def test_what_builds_on_a_faulty_operation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = row(fault("pieces"), fault("new-ids"), fault("beams"))
    monkeypatch.setattr(sweep, "sweep_one", lambda task: rows)
    table = sweep.sweep(Request(("mamba2",)))
    assert [cell.follows for cell in table.rows[0].cells] == [None, "pieces", None]


def test_only_takes_parts_of_names() -> None:
    assert [each.name for each in Request(only=("pieces",)).operations] == ["pieces", "prefill-pieces"]
    with pytest.raises(UsageError, match="no operation has that in its name"):
        Request(only=("nothing",))


def test_every_operation_has_a_program() -> None:
    from replaycheck.architectures.scripts import _BODIES

    assert set(_BODIES) == {operation.name for operation in OPERATIONS}


def table() -> ArchitectureTable:
    operations = [
        ArchitectureOperation(name=name, group="continue", meaning="m") for name in ("pieces", "fork", "crop")
    ]
    crashed = ArchitectureCell(operation="crop", verdict="crashed", sentence="TypeError: <b>no</b>")
    cells = (fault("pieces", script="print('<i>')"), fault("fork", follows="pieces"), crashed)
    return ArchitectureTable(
        transformers="5.23.0",
        torch="2.13.0",
        dtype="fp32",
        seed=0,
        operations=tuple(operations),
        rows=(row(*cells), row(name="broken", error="ValueError: sizes")),
    )


def test_the_table_shows_own_faults_in_a_sentence_and_others_with_a_star() -> None:
    text = architectures_text(table())
    assert "mamba2                    FAULT 2.5e-1   FAULT* 2.5e-1  crashed" in text
    assert "FAULT mamba2, pieces: 0.25 nat; cut into 1, 132: first wrong at position 1, 131 of 133 wrong" in text
    assert "FAULT mamba2, fork" not in text
    assert "crashed crop, mamba2: TypeError: <b>no</b>" in text
    assert "broken can't be built: ValueError: sizes" in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_page_escapes_what_the_library_says(environment: Environment) -> None:
    page = architectures_page(table(), environment)
    assert "<b>no</b>" not in page and "&lt;b&gt;no&lt;/b&gt;" in page
    assert "print(&#39;&lt;i&gt;&#39;)" in page
    assert "1 fault." in page


@pytest.fixture
def environment() -> Environment:
    from replaycheck.replay.environment import describe, finished

    return finished(describe({"seed": "0"}, "cpu", None))
