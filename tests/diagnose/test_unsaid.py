"""RC906 to RC909: what wasn't said, with its first place; and no finding says its title twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replaycheck.diagnose.codes import CODES, lookup
from replaycheck.diagnose.explain import explain
from replaycheck.diagnose.findings import Evidence, findings
from replaycheck.diagnose.rules import RULES
from replaycheck.diagnose.symptoms import Symptoms
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.gaps import Gaps, StateDtype, Where
from replaycheck.schema.result import Finding

FIRST = Where(trace="t", branch=1, turn=2, position=77)


def only(evidence: Evidence) -> Finding:
    (finding,) = findings(evidence)
    return finding


def with_gaps(evidence: Evidence, name: str, **counts: Any) -> Evidence:
    gaps = Gaps(**{"missing": 0, "first_missing": None, "nan": 0, "first_nan": None} | counts)
    return replace(
        evidence, arms=tuple(a.model_copy(update={"gaps": gaps}) if a.name == name else a for a in evidence.arms)
    )


def test_a_dtype_that_is_in_use_though_another_was_asked_for(clean: Evidence) -> None:
    found = only(replace(clean, state_dtype=StateDtype(asked=PoolDtype.BF16, in_use=PoolDtype.FP32)))
    assert (found.code, found.place) == ("RC906", None)
    assert found.sentence.startswith("bf16 was asked for, and fp32 is in use")


def test_a_dtype_that_is_right_or_can_not_be_seen_is_no_finding(clean: Evidence) -> None:
    for seen_one in (PoolDtype.BF16, None):
        assert findings(replace(clean, state_dtype=StateDtype(asked=PoolDtype.BF16, in_use=seen_one))) == ()


def test_nan_is_found_in_its_arm_at_its_first_place(clean: Evidence) -> None:
    found = only(with_gaps(clean, "warm/fp16", nan=3, first_nan=FIRST))
    assert (found.code, found.place) == ("RC907", FIRST)
    assert "in the arm warm/fp16 at trace t, branch 1, turn 2, position 77." in found.sentence
    assert found.sentence.startswith("3 of ")


def test_what_was_left_out_is_another_finding_than_nan(clean: Evidence) -> None:
    both = with_gaps(clean, "warm/fp16", nan=3, first_nan=FIRST, missing=1, first_missing=FIRST)
    assert [each.code for each in findings(both)] == ["RC907", "RC908"]
    assert only(with_gaps(clean, "warm/fp16", missing=1, first_missing=FIRST)).place == FIRST


def test_other_tokens_without_a_size_are_counted(clean: Evidence) -> None:
    change = {"missing": 9, "unsized": 8, "unsized_flips": 2, "first_unsized_flip": FIRST}
    found = only(replace(clean, cells=(clean.cells[0].model_copy(update=change), *clean.cells[1:])))
    assert (found.code, found.place) == ("RC909", FIRST)
    assert found.sentence.startswith("2 of 8 tokens")


def test_every_code_of_this_file_has_its_page() -> None:
    assert {"RC906", "RC907", "RC908", "RC909"} <= set(CODES)


def test_a_diagnosis_does_not_say_its_title_again() -> None:
    """The rule's words are nearly the title's; they stand in the evidence."""
    said = explain(Symptoms(PoolDtype.FP32, lost_hits=2))
    assert said is not None
    rule = next(rule for rule in RULES if rule.code == said.code and rule.when in said.evidence[0])
    assert rule.when not in said.sentence.lower()
    assert lookup(said.code).title not in said.sentence
