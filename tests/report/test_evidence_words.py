"""What the summary says of its own evidence: hits that nobody predicted, gates with nothing to judge, nothing before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from replaycheck.replay.store import Run, read_result
from replaycheck.report import first
from replaycheck.report.terminal import summary_text
from replaycheck.report.verdict import answer
from replaycheck.schema.arm import Compiler
from replaycheck.schema.result import Result

Write = Callable[..., Path]


def with_hits(result: Result, expected: int, proven: int) -> Result:
    """With these hits of the first warm arm, and none of the others."""
    warm = [arm.name for arm in result.arms if arm.compiler is Compiler.WARM]
    numbers = {name: (expected, proven) if name == warm[0] else (0, 0) for name in warm}
    arms = tuple(
        arm.model_copy(update=dict(zip(("expected_hits", "proven_hits"), numbers[arm.name], strict=True)))
        if arm.name in numbers
        else arm
        for arm in result.arms
    )
    return result.model_copy(update={"arms": arms})


@pytest.mark.parametrize(
    ("expected", "proven", "said"),
    [
        (4, 4, "(4 of 4 expected hits proven)"),
        (4, 3, "(3 of 4 expected hits proven)"),
        (0, 4, "(4 hits proven, none predicted)"),
        (3, 4, "(4 hits proven, 3 of them predicted)"),
        (0, 0, "(0 of 0 expected hits proven)"),
    ],
)
def test_hits_that_nobody_predicted_are_called_so(write_run: Write, expected: int, proven: int, said: str) -> None:
    assert said in answer(with_hits(read_result(Run(write_run())), expected, proven)).amount


def test_a_gate_with_nothing_to_judge_is_named_and_what_was_proven_is_said(write_run: Write) -> None:
    result = read_result(Run(write_run()))
    empty = result.gates[0].model_copy(update={"verdict": "vacuous", "sentence": "no state was audited.", "worst": ""})
    gates = (empty, *result.gates[1:])
    vacuous = result.model_copy(
        update={"gates": gates, "summary": result.summary.model_copy(update={"verdict": "vacuous"})}
    )
    text = " ".join(summary_text(vacuous, Path("run")).split())
    assert f"A gate has nothing to judge here, {empty.name}: no state was audited. Storing and restoring" in text
    assert "bit for bit at all" in text
    assert f"vacuous {empty.name}: value" in text and ", at Report" not in text


def test_a_run_without_a_restore_proves_nothing(write_run: Write) -> None:
    result = read_result(Run(write_run()))
    cells = tuple(cell.model_copy(update={"vacuous": True}) for cell in result.cells)
    summary = result.summary.model_copy(update={"verdict": "vacuous"})
    said = answer(result.model_copy(update={"cells": cells, "summary": summary})).sentence
    assert said == "Nothing was proven: no restore happened, or no position was compared."


def test_a_divergence_at_the_first_token_has_no_mean_before_it(
    write_run: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = first._around
    monkeypatch.setattr(first, "_around", lambda one: replace(around(one), before=None))
    text = " ".join(summary_text(read_result(Run(run := write_run(fault=True))), run).split())
    assert " nat there, mean " in text and " after it in this answer." in text
    assert "before and" not in text and "–" not in text.partition("Tokens:")[2].partition(".")[0]


@pytest.mark.parametrize(("verdict", "helps"), [("fail", True), ("inconclusive", False)])
def test_a_bound_that_would_pass_is_said_where_another_bound_would_help(
    write_run: Write, verdict: str, helps: bool
) -> None:
    result = read_result(Run(write_run()))
    gate = result.gates[0].model_copy(update={"verdict": verdict, "passing_bound": 7.0})
    text = summary_text(result.model_copy(update={"gates": (gate, *result.gates[1:])}), Path("run"))
    assert (", 7 would pass" in text) is helps
