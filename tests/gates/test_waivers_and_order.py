"""Waivers until a date, totals that add up, and lines of the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from replaycheck.errors import UsageError
from replaycheck.gates.judge import judge
from replaycheck.gates.load import load_gates
from replaycheck.gates.summary import code_under
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import Result, Summary
from replaycheck.toml_lines import line_of, table_lines
from tests import synthetic_result as made
from tests import synthetic_run as syn

HEAD = 'schema = "replaycheck.gates/1"\nname = "mine"\n'
GATE = """
[[gate]]
name = "{name}"
metric = "{metric}"
scope = {{ effect = "{effect}" }}
bound = {bound}
{more}why = "a test"
admitted_by = "bf16-snapshot"
min_traces = 1
"""
WAIVER = """
[[waiver]]
gate = "bits"
reason = "rewritten in the next release"
owner = "kernels@example.org"
expires = {expires}
"""


def gate(
    name: str, effect: str = "exact", bound: float = 0, more: str = "", metric: str = "positions-bits-differ"
) -> str:
    return GATE.format(name=name, metric=metric, effect=effect, bound=bound, more=more)


def run_with(tmp_path: Path, text: str, change: made.Change = syn.louder) -> Result:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + text)
    run = made.started(tmp_path / "run")
    made.fill(run, change)
    return made.judged(run, gates=[str(path)])


@pytest.mark.parametrize(
    ("expires", "verdict", "code", "said"),
    [
        ("2099-01-01", "waived", 0, "Waived until 2099-01-01 by kernels@example.org: rewritten"),
        ("2020-02-29", "fail", 1, "Its waiver expired on 2020-02-29: rewritten in the next release; ask"),
    ],
)
def test_a_waiver_lets_a_failure_pass_until_it_expires(
    tmp_path: Path, expires: str, verdict: str, code: int, said: str
) -> None:
    result = run_with(tmp_path, gate("bits") + WAIVER.format(expires=expires))
    assert (result.gates[0].verdict, result.summary.exit_code) == (verdict, code)
    assert said in result.gates[0].sentence
    assert "kernels@example.org" in (result.gates[0].waiver or "")
    assert result.summary.waived == (verdict == "waived")


def test_the_last_day_counts(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + gate("bits", bound=-1) + WAIVER.format(expires="2026-03-01"))
    from replaycheck.gates.evidence import Evidence
    from replaycheck.gates.tables import InMemory

    result = made.whole(tmp_path / "run")
    evidence = Evidence.of(result, (), InMemory())
    verdicts = [
        judge([load_gates(str(path))], evidence, day)[0].verdict for day in (date(2026, 3, 1), date(2026, 3, 2))
    ]
    assert verdicts == ["waived", "fail"]


def test_a_waiver_is_no_evidence_and_says_when_it_is_not_needed(tmp_path: Path) -> None:
    result = run_with(tmp_path, gate("bits") + WAIVER.format(expires="2099-01-01"), lambda found: found)
    assert result.gates[0].verdict == "pass"
    assert "isn't needed" in result.gates[0].sentence


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'gate = "bits"',
            'gate = "bit"',
            "line 14: waiver of 'bit', which is no gate of this file (did you mean 'bits'?); those are 'bits'",
        ),
        ("2099-01-01", '"soon"', "line 17: waiver[0].expires"),
        ('owner = "kernels@example.org"', "", "line 13: waiver[0].owner: is missing"),
        ("bound = 0", "factor = 2", "line 4: gate[0]: give bound, or floor and factor"),
        (
            "bound = 0",
            'floor = "num"\nfactor = 2',
            "line 8: gate 'bits': metric 'positions-bits-differ' has no bound over",
        ),
        ("bound = 0", "bound = 0\nhorizon = 3", "line 9: gate 'bits': metric 'positions-bits-differ' takes no horizon"),
        ("positions-bits-differ", "first-divergence", "line 6: gate 'bits': metric 'first-divergence' needs horizon"),
        (
            "positions-bits-differ",
            "ratio-to-floor",
            "line 8: gate 'bits': metric 'ratio-to-floor' is a multiple of a floor",
        ),
        ("bound = 0", 'bound = 0\nstage = "late"', "line 9: gate[0].stage: 'late' isn't allowed"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((HEAD + gate("bits") + WAIVER.format(expires="2099-01-01")).replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_gates(str(path))
    assert f"gate file {str(path)!r}, {expected}" in str(caught.value)


def test_a_header_inside_a_string_is_no_gate() -> None:
    text = HEAD + 'why = """\n[[gate]]\n"""\n[[gate]] # first\nname = "a"\n\n[[gate]]\nname = "b"\n'
    assert table_lines(text, "gate") == (6, 9)
    assert line_of(text, ("gate", 1, "name")) == 10
    assert line_of(text, ("gate", 1, "bound")) == 9
    assert line_of(text, ("gate", 2)) is None
    assert line_of(text, ("schema",)) == 1


def test_the_first_failed_stage_ends_the_sequence_and_totals_add_up(tmp_path: Path) -> None:
    text = (
        gate("tokens", bound=1e9, more='stage = "tokens"\n')
        + gate("state", more='stage = "state"\n')
        + gate("logits", more='stage = "logits"\n')
        + gate("kernel", more='stage = "kernel"\n', metric="kernels-differ")
        + gate("apart", bound=1e9)
    )
    result = run_with(tmp_path, text)
    assert {each.name: each.verdict for each in result.gates} == {
        "tokens": "not-judged", "state": "fail", "logits": "not-judged", "kernel": "pass", "apart": "pass",
    }  # fmt: skip
    summary = result.summary
    assert (summary.declared, summary.passed, summary.failed, summary.not_judged) == (5, 2, 1, 2)
    assert [each.line for each in result.gates] == [4, 14, 24, 34, 44]


def test_totals_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    summary = run_with(tmp_path, gate("bits")).summary.model_dump()
    with pytest.raises(ValueError, match="isn't declared"):
        Summary.model_validate(summary | {"waived": 1})


@pytest.mark.parametrize(
    ("code", "inconclusive", "policy", "zero", "expected"),
    [
        (6, True, "code", False, 6),
        (6, True, "fail", False, 1),
        (6, True, "pass", False, 0),
        (5, True, "fail", False, 1),
        (5, False, "fail", False, 5),
        (5, True, "pass", False, 5),
        (1, True, "pass", False, 1),
        (1, False, "code", True, 0),
        (0, False, "fail", False, 0),
    ],
)
def test_exit_codes_under_a_policy(code: int, inconclusive: bool, policy: str, zero: bool, expected: int) -> None:
    assert code_under(code, inconclusive, policy, zero) == expected


def test_without_a_policy_the_verdict_has_its_own_code() -> None:
    assert [code_under(code, True) for code in (0, 1, 5, 6)] == [0, 1, 5, 6]


def test_the_command_line_shows_them(replaycheck: Callable[..., Any], tmp_path: Path) -> None:
    """An expired waiver exits 1, too few traces 6, and nothing compared 5; the policy changes the code and nothing else."""
    made.whole(tmp_path / "run")
    made.whole(tmp_path / "loud", syn.louder)
    waived, few, none = (tmp_path / f"{name}.toml" for name in ("waived", "few", "none"))
    waived.write_text(HEAD + gate("bits") + WAIVER.format(expires="2020-02-29"))
    few.write_text((HEAD + gate("bits")).replace("min_traces = 1", "min_traces = 64"))
    none.write_text(HEAD + gate("bits", effect="parallel"))
    for folder, path, options, code in (
        ("loud", waived, (), 1),
        ("loud", waived, ("--exit-zero",), 0),
        ("run", few, (), 6),
        ("run", few, ("--inconclusive", "fail"), 1),
        ("run", few, ("--inconclusive", "pass"), 0),
        ("run", none, (), 5),
        ("run", none, ("--inconclusive", "pass"), 5),
    ):
        outcome = replaycheck("gate", tmp_path / folder, "--gates", path, "--json", *options)
        assert outcome.code == code, (path.name, options)
        assert json.loads(outcome.out)["summary"]["exit_code"] == {"waived": 1, "few": 6, "none": 5}[path.stem]


@pytest.mark.parametrize(("least", "verdict", "code"), [(1, "fail", 1), (3, "inconclusive", 6)])
def test_a_floor_of_too_few_traces_fails_nothing(tmp_path: Path, least: int, verdict: str, code: int) -> None:
    """The run has two traces: its own F_num is known to a gate that needs one, and not to one that needs three."""
    text = gate("worst", "total", metric="worst-trace").replace("bound = 0", 'floor = "num"\nfactor = 3')
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + text.replace("min_traces = 1", f"min_traces = {least}"))
    run = made.started(tmp_path / "run")
    made.fill(run, syn.louder, PoolDtype.FP32)
    result = made.judged(run, pool=PoolDtype.FP32, gates=[str(path)])
    (found,) = result.gates
    assert found.value.value is not None and found.bound is not None and found.value.value > found.bound
    assert (found.verdict, result.summary.exit_code) == (verdict, code)
    if verdict == "inconclusive":
        assert "is over a floor of 2 traces, and to fail takes 3" in found.sentence
        assert found.traces_needed == 3
