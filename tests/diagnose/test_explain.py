"""The classifier names what was planted, says why, and stays silent about what no rule explains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replaycheck.diagnose.again import Case
from replaycheck.diagnose.codes import CODES, broader
from replaycheck.diagnose.examine import examine
from replaycheck.diagnose.explain import Explanation, explain
from replaycheck.diagnose.rules import RULES
from replaycheck.diagnose.switches import Switch
from replaycheck.diagnose.symptoms import Symptoms
from replaycheck.faults.shipped import FAULTS
from replaycheck.schema.arm import PoolDtype

CaseOf = Callable[..., Case]


def said(case: Case) -> Explanation:
    found = explain(examine(case))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fault", "code", "confidence"),
    [
        ("bf16-snapshot", "RC101", "certain"),
        ("via-fp16", "RC103", "certain"),
        ("truncated", "RC104", "certain"),
        ("int8-checkpoint", "RC105", "certain"),
        ("flushed", "RC107", "certain"),
        ("beta-bf16", "RC111", "certain"),
        ("token-late", "RC204", "certain"),
        ("chunk-early", "RC203", "certain"),
        ("conv-early", "RC206", "certain"),
        ("lost-checkpoint", "RC301", "certain"),
        ("slot-reused", "RC303", "likely"),
        ("not-cleared", "RC304", "certain"),
        ("commit-late", "RC401", "certain"),
        ("conv-not-rolled-back", "RC402", "likely"),
        ("decay-last", "RC506", "certain"),
        ("transposed", "RC509", "certain"),
        ("tail-kernel", "RC601", "certain"),
        ("mask-dropped", "RC603", "certain"),
        ("beta-replicated", "RC604", "likely"),
    ],
)
def test_a_planted_fault_is_named(case_of: CaseOf, fault: str, code: str, confidence: str) -> None:
    found = said(case_of(fault))
    assert (found.code, found.confidence) == (code, confidence)
    assert "First wrong step: " in found.sentence


def test_a_right_case_has_no_explanation(case_of: CaseOf) -> None:
    assert explain(examine(case_of(None))) is None


def test_the_oracle_says_how_many_tokens_a_late_state_holds(case_of: CaseOf) -> None:
    found = said(case_of("token-late"))
    assert any("it holds 65 tokens of its own path" in line and "64 are meant" in line for line in found.evidence)


def test_equal_bits_say_whose_state_was_restored(case_of: CaseOf) -> None:
    found = said(case_of("slot-reused"))
    assert any("bit for bit" in line and "of request" in line for line in found.evidence)


def test_wrong_states_are_counted_by_how_they_were_written(case_of: CaseOf) -> None:
    """The fault takes states inside extends that don't end on the grid, all of them."""
    from replaycheck.faults.cell import SmallCell
    from replaycheck.schema.arm import CheckpointPolicy

    cell = SmallCell("chat", CheckpointPolicy(every=64, turn_end=True), PoolDtype.FP32)
    kinds = {kind: (wrong, every) for kind, wrong, every in examine(case_of("bf16-snapshot", cell)).kinds}
    assert kinds["interior"][0] == kinds["interior"][1] > 0
    assert "by how they were written: " in " ".join(said(case_of("bf16-snapshot", cell)).evidence)


def test_what_the_failure_needs_and_what_it_doesnt_is_said(case_of: CaseOf) -> None:
    facts = examine(case_of("commit-late"))
    assert Switch.REJECTION in facts.vanishes
    assert Switch.REDUCED in facts.stays
    assert "a reduced pool: it fails without, too" in said(case_of("commit-late")).excluded


def test_a_failure_that_no_rule_explains_is_unknown() -> None:
    facts = replace(Symptoms(PoolDtype.BF16), refused="something new", vanishes=frozenset({Switch.SPECULATION}))
    found = explain(facts)
    assert found is not None
    assert (found.code, found.confidence) == ("RC903", "none")


def test_variants_of_several_codes_name_none(case_of: CaseOf) -> None:
    """With equal decays for all heads a wrong head can't be told from a right one: two variants, no name."""
    from replaycheck.diagnose.rules import _variant
    from replaycheck.diagnose.variants import Explained

    both = replace(Symptoms(PoolDtype.BF16), variants=(Explained("RC501", "a"), Explained("RC502", "b")))
    assert _variant(both) is None
    assert _variant(replace(both, variants=both.variants[:1])) == "RC501"


def test_every_rule_names_a_code_of_the_table() -> None:
    assert {rule.code for rule in RULES} <= CODES.keys()
    assert all(rule.when for rule in RULES)


def test_more_general_codes_are_in_the_table_and_end() -> None:
    assert all(set(broader(code)) <= CODES.keys() for code in CODES)


def test_shipped_faults_name_codes_of_the_table() -> None:
    assert {fault.code for fault in FAULTS.values()} <= CODES.keys()
