"""The table of codes, and ``replaycheck explain``."""

from __future__ import annotations

import json
import re

import pytest

from replaycheck.cli.main import invoke
from replaycheck.diagnose.codes import CODES, page
from replaycheck.errors import ExitCode


@pytest.mark.parametrize("code", CODES)
def test_every_page_has_five_parts_that_say_something(code: str) -> None:
    parts = re.split(r"^## .*$", page(code), flags=re.MULTILINE)
    assert len(parts) == 6
    assert all(len(part.strip()) > 20 for part in parts)


def test_codes_belong_to_the_declared_families() -> None:
    assert all(re.fullmatch(r"RC[1-69]\d\d", code) for code in CODES)


def test_explain_prints_the_page_whatever_the_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", "rc101"]) == 0
    assert capsys.readouterr().out == page("RC101")


def test_explain_alone_lists_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CODES)


def test_explain_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", "RC901", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["code"] == "RC901"


def test_an_unknown_code_gets_the_nearest_and_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain", "RC999"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "'RC999'" in captured.err
    assert f"'RC909'?); `replaycheck explain` lists all {len(CODES)}" in captured.err
