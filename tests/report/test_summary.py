"""summary.md: bounded whatever was found, and hostile text that Markdown shows instead of obeying."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaycheck.report.summary
from replaycheck.replay.store import Run, read_environment, read_result
from replaycheck.report.summary import MOST_BYTES, summary_markdown

Write = Callable[..., Path]


def text_of(run: Path, **changes: Any) -> str:
    return summary_markdown(read_result(Run(run)).model_copy(update=changes), read_environment(Run(run)))


def test_its_examples_run() -> None:
    assert doctest.testmod(replaycheck.report.summary).failed == 0


def test_it_answers_first_and_ends_with_the_environment(write_run: Write) -> None:
    text = text_of(write_run(fault=True))
    assert text.startswith("## replaycheck: fail, suite quick\n\n**Did caching change my outputs? Yes.**")
    assert text.index("| pool |") < text.index("**RC101") < text.index("| gate |") < text.index("Environment: ")
    assert "Reproduce: `replaycheck run quick --seed 0 --fault bf16-snapshot`" in text
    assert "torch 2.13.0" in text and "fla-core" not in text
    assert "more in the artifact" not in text


def test_failed_gates_come_first(write_run: Write) -> None:
    rows = re.findall(r"^\| exact/\S+ \| (\S+) ", text_of(write_run(fault=True)), re.MULTILINE)
    assert rows == ["fail", "fail", "pass"]


@pytest.mark.parametrize("many", ["findings", "gates"])
@pytest.mark.parametrize("letter", ["x", "𝄞", "|", "\x01"], ids=["plain", "4 bytes", "escaped", "control"])
def test_it_keeps_under_200_kb_and_counts_the_rest(write_run: Write, many: str, letter: str) -> None:
    run = write_run(fault=True)
    result = read_result(Run(run))
    long = letter * 5000
    texts = {"sentence": long, "reproduce": long} if many == "findings" else {"worst": long}
    found = tuple(each.model_copy(update=texts) for each in getattr(result, many)) * 500
    text = text_of(run, **{many: found, "suite": long})
    assert len(text.encode()) < MOST_BYTES
    last = text.splitlines()[-1]
    left = int(last.partition(" more in the artifact")[0].replace(",", ""))
    assert 0 < left < len(found) + 10


def test_hostile_text_is_shown(write_run: Write) -> None:
    hostile = "[x](javascript:1)|<b>&lt; @team #1 ~~y~~ $z$ https://e.example www.e.example `"
    text = text_of(write_run(suite=hostile))
    assert r"\[x\](javascript:1)\|\<b\>\&lt; \@team \#1 \~\~y\~\~ \$z\$ https\://e.example www\.e.example \`" in text


def test_a_command_keeps_its_backticks(write_run: Write) -> None:
    run = write_run(fault=True)
    finding = read_result(Run(run)).findings[0].model_copy(update={"reproduce": "run --traces '``x`'"})
    assert "``` run --traces '``x`' ```" in text_of(run, findings=(finding,))
