"""The page answers first, needs no network and no script, and shows untrusted text instead of obeying it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from replaycheck.replay.store import Run, read_environment, read_result, read_table, write_json, write_whole
from replaycheck.report import html as html_module
from replaycheck.report.breaks import names
from replaycheck.report.content import SECTIONS
from replaycheck.report.html import render
from replaycheck.report.privacy import HIDDEN, mark_text
from replaycheck.report.saved import load
from replaycheck.report.write import write_all
from replaycheck.schema.environment import TextKind
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.gaps import Where
from replaycheck.schema.result import Finding
from replaycheck.schema.tables import TABLES

Write = Callable[..., Path]

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe\u200b\x1b[31m\x00&amp;{{ 7*7 }}"
VOID = {"meta", "br", "wbr", "path", "use", "rect", "line", "circle"}


def page(run: Path) -> str:
    return write_all(run).read_text(encoding="utf-8")


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", " ", html, flags=re.DOTALL))


class Balance(HTMLParser):
    """Collects tags that are opened and not closed, or the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_a_clean_run_is_answered_before_anything_else(write_run: Write) -> None:
    text = text_of(page(write_run()))
    assert "Did caching change my outputs? Only by rounding." in text
    assert "warm equals split-rounded bit for bit at all 2,880 positions, in the fp32, bf16 and fp16 pools" in text
    assert "288 of 288 expected hits proven" in text
    assert text.index("Did caching change") < text.index("Findings") < text.index("Matrix") < text.index("Gates")


def test_a_faulty_run_is_answered_with_yes_and_the_finding(write_run: Write) -> None:
    html = page(write_run(fault=True))
    text = text_of(html)
    assert "Did caching change my outputs? Yes." in text
    assert "RC101: extra rounding through bf16 before the store In the fp32 and fp16 pools: snapshots" in text
    assert "the fault bf16-snapshot planted on purpose" in text
    assert html.count('<td class="fail') >= 16  # one exact cell of fp32 and of fp16 in each of eight rows


def test_the_banner_of_a_failing_run_says_what_failed_why_and_where(write_run: Write) -> None:
    html = page(write_run(fault=True))
    banner = html[html.index('id="verdict"') : html.index("<nav")]
    text = text_of(banner)
    assert "1 of 3 gates pass; warm-is-split-rounded , one-cast fail." in text
    assert "Cause: RC101, extra rounding through bf16 before the store" in text
    assert re.search(
        r"First divergence, exact: trace trace-\d, branch 0, turn 1, position \d+ , \d+ tokens after the", text
    )
    targets = re.findall(r'href="#([^"]+)"', banner)
    assert len(targets) >= 5 and all(html.count(f' id="{target}"') == 1 for target in targets)


def test_the_banner_of_a_passing_run_blames_nothing(write_run: Write) -> None:
    html = page(write_run())
    text = text_of(html[html.index('id="verdict"') : html.index("<nav")])
    assert "3 of 3 gates pass." in text
    assert "Cause:" not in text and "First divergence" not in text


def test_no_link_leads_out_of_the_page(write_run: Write) -> None:
    """A copy of the page, in a mail or kept by CI, has no files beside it."""
    run = write_run(fault=True)
    html = page(run)
    assert set(re.findall(r'<a [^>]*href="(.)', html)) == {"#"}
    assert f"The run&#39;s folder, {run} when this page was made" in text_of(html).replace("'", "&#39;")


def test_the_page_is_one_offline_file_under_a_megabyte(write_run: Write) -> None:
    html = page(write_run(fault=True))
    assert "default-src 'none'" in html
    assert not re.search(r"https?://|@import|url\((?!#)|\bsrc=", html)
    assert len(html.encode()) < 2**20


def test_the_policy_names_the_one_script_by_its_hash(write_run: Write) -> None:
    html = page(write_run())
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert len(script.splitlines()) < 150
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|import|eval|innerHTML)\b\(?", script.replace("it fetches nothing", "")
    )


def test_a_page_over_the_cap_gets_shorter_tables_and_says_so(write_run: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(fault=True)
    whole = page(run)
    monkeypatch.setattr(html_module, "CAP", len(whole.encode()) - 1)
    shorter = page(run)
    assert len(shorter) < len(whole)
    assert re.search(r"Shown: the \d+ worst and the \d+ nearest the median; \d+ of \d+ are left out", text_of(shorter))


def test_the_data_are_in_the_page_byte_for_byte(write_run: Write) -> None:
    run = write_run(fault=True)
    (block,) = re.findall(r'<template id="data" data-name="result.json">([A-Za-z0-9+/=]+)</template>', page(run))
    assert gzip.decompress(base64.b64decode(block)) == (run / "result.json").read_bytes()


def test_data_that_are_too_large_are_left_out_and_named(write_run: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run()
    monkeypatch.setattr(html_module, "BUDGETS", (replace(html_module.BUDGETS[0], data=100),))
    html = page(run)
    assert "<template" not in html
    assert (
        f"Left out of this page, for its size: result.json ({(run / 'result.json').stat().st_size:,} bytes)"
        in re.sub(r"\s+", " ", re.sub(r"</?code>", "", html))
    )


def test_names_of_arms_break_after_their_slashes_only() -> None:
    shown = names("at warm/chunk-chunk/bf16, and a-b; <i>/x-y")
    assert shown == (
        'at warm/<wbr><span class="nb">chunk-chunk</span>/<wbr>bf16, and a-b; &lt;i&gt;/<wbr><span class="nb">x-y</span>'
    )
    assert "nb" not in names(f"a/{'long-' * 5}")


def test_numbers_with_a_negative_exponent_break_nowhere() -> None:
    assert names("below 2.28e-06 and 1e-7, not 3.5") == (
        'below <span class="nb">2.28e-06</span> and <span class="nb">1e-7</span>, not 3.5'
    )


def test_sections_come_in_the_order_of_the_reader(write_run: Write) -> None:
    html = page(write_run(fault=True))
    order = re.findall(r'<section id="(\w+)">', html)
    assert order == list(SECTIONS)
    assert all(f'href="#{name}"' in html for name in order)


def test_banner_and_first_finding_link_to_the_tokens_of_the_first_divergence(write_run: Write) -> None:
    run = write_run(fault=True)
    first = read_result(Run(run)).findings[0]
    html = page(run)
    banner, finding = re.findall(rf'<a href="#({first.code}-trace-\d+-turn-1-tokens)">', html)
    assert banner == finding and html.count(f'id="{banner}"') == 1
    assert first.place is not None
    assert html.count(f'id="{first.code}-{first.place.trace}-turn-{first.place.turn}"') == 1, "the finding itself"
    ids = re.findall(r' id="([^"]*)"', re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL))
    assert len(ids) == len(set(ids))


def test_every_finding_has_an_anchor_with_its_trace_and_turn(write_run: Write) -> None:
    first = Finding(code="RC110", title="t", sentence="s", evidence=(), reproduce="r")
    placed = first.model_copy(update={"code": "RC908", "place": Where(trace="17", branch=0, turn=3, position=9)})
    html = page(write_run(fault=True, findings=(first, placed)))
    assert html.count('id="RC908-trace-17-turn-3"') == html.count('id="RC908"') == 1
    assert re.search(rf'id="{first.code}-trace-\d+-turn-1"', html), "in no one trace: where the run parts first"


def test_two_environments_are_compared_and_times_are_not(write_run: Write) -> None:
    run = write_run()
    saved = load(run)
    environment = saved.environment.model_copy(update={"cores": 64, "started": "2027-01-01T00:00:00+00:00"})
    text = text_of(render(saved, against=replace(saved, environment=environment)))
    other = text[text.index("Other than in run") : text.index("All of it")]
    assert "cores 2 64" in other
    assert "started" not in other


@pytest.mark.parametrize("fault", [False, True], ids=["clean", "faulty"])
def test_every_tag_is_closed(write_run: Write, fault: bool) -> None:
    balance = Balance()
    balance.feed(page(write_run(fault=fault)))
    assert balance.wrong == []
    assert balance.open == []


def test_the_same_run_gives_the_same_bytes(write_run: Write) -> None:
    run = write_run()
    assert page(run) == page(run)


def test_hostile_text_is_shown_and_not_obeyed(write_run: Write) -> None:
    finding = Finding(code="RC101", title=HOSTILE, sentence=HOSTILE, evidence=(HOSTILE,), reproduce=HOSTILE)
    run = write_run(fault=True, suite=HOSTILE, model=HOSTILE, findings=(finding,), not_checked=(HOSTILE,))
    write_json(run / "environment.json", read_environment(Run(run)).model_copy(update={"command": (HOSTILE,)}))
    divergences = read_table(Run(run), "divergences").assign(trace=HOSTILE)
    write_whole(Run(run), "divergences", [to_arrow("divergences", divergences.drop_duplicates(["cell", "kind"]))])
    html = page(run)
    assert html.count("<script") == 1
    assert "<img" not in html
    assert not re.search("[\u202e\u200b\x1b\x00]", html)
    assert html.count(r"\u202egnp.exe\u200b\x1b[31m\x00") > 8
    assert "{{ 7*7 }}" in html


def test_broken_utf8_is_spelled_out(write_run: Write) -> None:
    """A name that was read with errors="surrogateescape" holds lone surrogates, which no encoding takes."""
    saved = load(write_run())
    html = render(replace(saved, result=saved.result.model_copy(update={"suite": "caf\udcc3\udca9"})))
    assert "suite caf\\udcc3\\udca9" in html
    html.encode("utf-8")


def test_tokens_are_shown_as_text_where_the_vocabulary_is_known(write_run: Write) -> None:
    run = write_run(fault=True)
    divergences = read_table(Run(run), "divergences").assign(token_a=ord("<"), token_b=10)
    write_whole(Run(run), "divergences", [to_arrow("divergences", divergences)])
    mark_text(Run(run), "public")
    assert "60 → 10" in page(run)
    result = read_result(Run(run))
    known = result.logprobs.model_copy(update={"vocabulary": "ascii-144"})
    write_json(run / "result.json", result.model_copy(update={"logprobs": known}))
    assert r"&#39;&lt;&#39; (60) → &#39;\n&#39; (10)" in page(run)


@pytest.mark.parametrize("kind", ["private", None])
def test_tokens_of_imported_traces_are_hidden_unless_asked_for(kind: TextKind | None, write_run: Write) -> None:
    run = write_run(fault=True)
    divergences = read_table(Run(run), "divergences").assign(token_a=ord("<"), token_b=10)
    write_whole(Run(run), "divergences", [to_arrow("divergences", divergences)])
    if kind is not None:
        mark_text(Run(run), kind)
    html = page(run)
    assert "60 → 10" not in html
    assert HIDDEN in html
    write_all(run, show_text=True)
    assert "60 → 10" in (run / "report.html").read_text(encoding="utf-8")


def test_a_run_without_tables_says_why_charts_are_empty(write_run: Write) -> None:
    run = write_run()
    for table in ("pairs", "restores"):
        for part in (run / table).iterdir():
            part.unlink()
    write_whole(Run(run), "divergences", [TABLES["divergences"].empty_table()])
    text = text_of(page(run))
    assert "No position was compared with a fp16 pool." in text
    assert "No state was restored in a split-against-warm comparison." in text
    assert "No branch was compared." in text


def test_a_failed_gate_without_a_finding_says_that_the_cause_is_unknown(write_run: Write) -> None:
    assert "its cause is unknown" in text_of(page(write_run(fault=True, findings=())))


def test_cells_that_the_subject_cant_do_are_listed(write_run: Write) -> None:
    assert "no interior snapshots" in text_of(page(write_run(not_checked=("state/x: no interior snapshots",))))
