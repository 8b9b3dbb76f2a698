"""junit.xml as a CI reads it: counts, stable names, what is an error, and text that XML 1.0 can't hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import junitparser
import pytest

from replaycheck.errors import EngineEnvironmentError
from replaycheck.replay.store import Run, read_environment, read_result
from replaycheck.report.junit import MOST_BYTES, crash_recorded, junit_xml
from replaycheck.schema.result import GateResult, Result

Write = Callable[..., Path]

VERDICTS = ("pass", "fail", "inconclusive", "vacuous", "waived", "not-judged")


def with_gates(run: Path, *verdicts: str, suite: str = "quick", **changes: object) -> tuple[Result, str]:
    """The run's result with one gate a verdict, and its XML."""
    result = read_result(Run(run))
    gates = [
        result.gates[0].model_copy(update={"name": f"gate-{verdict}", "verdict": verdict, **changes})
        for verdict in verdicts
    ]
    changed = result.model_copy(update={"gates": tuple(gates), "suite": suite})
    return changed, junit_xml(changed, read_environment(Run(run)))


def parsed(xml: str) -> tuple[junitparser.JUnitXml, dict[str, junitparser.TestCase]]:
    found = junitparser.JUnitXml.fromstring(xml.encode())
    return found, {case.name: case for suite in found for case in suite}


def test_each_verdict_is_what_ci_shows(write_run: Write) -> None:
    _, xml = with_gates(write_run(), *VERDICTS, scope="")
    found, cases = parsed(xml)
    assert (found.tests, found.failures, found.errors, found.skipped) == (7, 1, 2, 2)
    assert {name: [type(each) for each in case.result] for name, case in cases.items()} == {
        "something was compared": [],
        "gate-pass": [],
        "gate-fail": [junitparser.Failure],
        "gate-inconclusive": [junitparser.Error],
        "gate-vacuous": [junitparser.Error],
        "gate-waived": [junitparser.Skipped],
        "gate-not-judged": [junitparser.Skipped],
    }


def test_there_is_one_suite_a_workload_with_the_environment(write_run: Write) -> None:
    _, xml = with_gates(write_run(), "pass")
    (suite,) = parsed(xml)[0]
    facts = {each.name: each.value for each in suite.properties()}
    assert suite.name == "quick"
    assert suite.time == 60.0
    assert facts["versions.torch"] == "2.13.0" and facts["cores"] == "2" and facts["seed"] == "0"


def test_a_waived_gate_gives_the_waivers_reason(write_run: Write) -> None:
    _, xml = with_gates(write_run(), "waived", waiver="known since May, by ann, until 2026-12-31", scope="")
    (skipped,) = parsed(xml)[1]["gate-waived"].result
    assert skipped.message.startswith("known since May, by ann, until 2026-12-31: ")


def test_a_failure_says_everything_that_the_verdict_rests_on(write_run: Write) -> None:
    changes = {"passing_bound": 7.0, "separation": 3.5, "fault_value": 9.0, "scope": ""}
    result, xml = with_gates(write_run(fault=True), "fail", **changes)
    (failure,) = parsed(xml)[1]["gate-fail"].result
    for part in ("A bound of 7 would have passed", "3.5 times the bound", "Why this bound: ", result.gates[0].worst):
        assert part in failure.text


def test_names_are_the_same_whether_a_gate_passes_or_fails(write_run: Write, tmp_path: Path) -> None:
    names = []
    for fault in (False, True):
        run = write_run(fault=fault)
        xml = junit_xml(read_result(Run(run)), read_environment(Run(run)))
        names.append([(case.classname, case.name) for suite in parsed(xml)[0] for case in suite])
        run.rename(tmp_path / f"kept-{fault}")
    assert names[0] == names[1]
    assert names[0][1] == ("replaycheck.quick.exact", "warm-is-split-rounded[effect exact]")


def test_a_vacuous_cell_is_an_error_though_every_gate_passes(write_run: Write) -> None:
    run = write_run()
    result = read_result(Run(run))
    cells = (result.cells[0].model_copy(update={"vacuous": True, "why_vacuous": "no hit"}), *result.cells[1:])
    xml = junit_xml(result.model_copy(update={"cells": cells}), read_environment(Run(run)))
    (error,) = parsed(xml)[1]["something was compared"].result
    assert error.type == "vacuous" and error.message.startswith("1 of 80 cells prove nothing; ")


def test_a_run_that_no_gate_judged_is_an_error(write_run: Write) -> None:
    _, xml = with_gates(write_run())
    assert parsed(xml)[0].errors == 1


@pytest.mark.parametrize("text", ["a\x00\x1b\ufffe<&", "\ud800", "\u202e" * 9000, "𝄞" * 9000, "\x01" * 9000])
def test_any_text_is_well_formed_and_short(write_run: Write, text: str) -> None:
    _, xml = with_gates(write_run(), "fail", suite=text, sentence=text, why=text, name=text)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", xml)
    for case in parsed(xml)[1].values():
        for outcome in case.result:
            assert len(outcome.message.encode()) <= MOST_BYTES < 10_000
            assert len(outcome.text.encode()) <= MOST_BYTES


def test_an_unknown_verdict_is_refused_by_the_type_and_here(write_run: Write) -> None:
    with pytest.raises(KeyError):
        with_gates(write_run(), "strange")
    assert set(VERDICTS) == set(GateResult.model_json_schema()["properties"]["verdict"]["enum"])


@pytest.mark.parametrize(
    ("error", "said"),
    [(EngineEnvironmentError("the server is gone"), "the server is gone"), (KeyError("x"), "internal error: KeyError")],
)
def test_a_crash_leaves_one_error(write_run: Write, error: Exception, said: str) -> None:
    run = write_run()
    (run / "result.json").unlink()
    with pytest.raises(type(error)), crash_recorded(run, "quick"):
        raise error
    found, cases = parsed((run / "junit.xml").read_text())
    assert (found.tests, found.errors) == (1, 1)
    assert said in cases["finished"].result[0].message


def test_a_crash_touches_no_folder_but_that_of_its_run(write_run: Write, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "mine", write_run(), tmp_path / "absent", None):
        with pytest.raises(ZeroDivisionError), crash_recorded(folder, "quick"):
            raise ZeroDivisionError
        assert folder is None or not (folder / "junit.xml").exists()
