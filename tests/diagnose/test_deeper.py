"""What the tables found and what a case that was run again said, together."""

from __future__ import annotations

from replaycheck.diagnose.codes import CODES
from replaycheck.diagnose.confusion import _answer, counts
from replaycheck.diagnose.deeper import joined
from replaycheck.diagnose.explain import UNKNOWN, Explanation
from replaycheck.schema.result import Finding


def finding(code: str) -> Finding:
    return Finding(code=code, title=CODES[code].title, sentence="Seen.", evidence=("a line",), reproduce="again")


def said(code: str, confidence: str = "certain") -> Explanation:
    return Explanation(code, confidence, "Explained.", ("why",), ("the batch: it fails alone",))  # type: ignore[arg-type]


def test_a_special_code_stands_for_the_general_one() -> None:
    found = joined((finding("RC201"), finding("RC202")), said("RC203"), "warm, group g", "again")
    assert [each.code for each in found] == ["RC202", "RC203"]
    assert found[1].confidence == "certain"
    assert found[1].evidence == ("warm, group g", "why")
    assert found[1].excluded == ("the batch: it fails alone",)


def test_what_the_tables_cant_explain_goes_when_it_is_explained() -> None:
    found = joined((finding("RC102"), finding("RC301")), said("RC204"), "w", "again")
    assert [each.code for each in found] == ["RC204", "RC301"]


def test_an_explanation_adds_to_a_finding_of_its_own_code() -> None:
    (one,) = joined((finding("RC101"),), said("RC101"), "warm, group g", "again")
    assert one.sentence == "Seen. Explained."
    assert one.evidence == ("a line", "warm, group g", "why")


def test_an_unknown_cause_is_said_only_if_nothing_else_is_known() -> None:
    known = (finding("RC102"),)
    assert joined(known, said(UNKNOWN, "none"), "w", "again") == known
    assert [each.code for each in joined((), said(UNKNOWN, "none"), "w", "again")] == [UNKNOWN]


def test_a_wrong_name_counts_by_how_sure_it_was() -> None:
    assert _answer("RC203", said("RC203")) == "right"
    assert _answer("RC201", said("RC203")) == _answer("RC203", said("RC201")) == "right"
    assert _answer("RC204", said("RC203")) == "confidently wrong"
    assert _answer("RC204", said("RC203", "likely")) == "wrong"
    assert _answer("RC204", said(UNKNOWN, "none")) == "unknown"
    assert _answer("RC204", None) == "nothing seen"


def test_faults_that_changed_nothing_arent_counted() -> None:
    found = counts(("right", "right", "unknown", "confidently wrong", "nothing seen", "not run"))
    assert (found.shown, found.right_share, found.confidently_wrong_share) == (4, 0.5, 0.25)
