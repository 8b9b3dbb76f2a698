"""The documentation is built with warnings as errors, and its generated parts are in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from replaycheck.cli.main import VERBS
from replaycheck.public import PUBLIC

from .blocks import ROOT


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
         "-d", str(out / "trees"), str(source), str(out / "site")],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    done = build(ROOT / "docs", out)
    assert done.returncode == 0, done.stderr
    return out / "site"


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_every_verb_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f'id="replaycheck-{verb}"' not in page] == []
    assert 'id="replaycheck-trace-import"' in page
    assert "--checkpoint-interval" in page


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    names = [f"{surface.module}.{name}" for surface in PUBLIC for name in surface.names]
    assert [name for name in names if f"#{name}" not in page and f'id="{name}"' not in page] == []


def test_no_mark_of_a_generated_part_is_left(site: Path) -> None:
    assert [page.name for page in site.rglob("*.html") if "!-- generated:" in page.read_text(encoding="utf-8")] == []
    assert "blake2b-64 of the logits' fp32 bytes" in text_of(site / "reference" / "files.html").replace("’", "'")


def test_pages_have_the_style_that_makes_them_fit_a_phone(site: Path) -> None:
    assert "_static/site.css" in (site / "index.html").read_text(encoding="utf-8")
    assert "overflow-x: auto" in (site / "_static" / "site.css").read_text(encoding="utf-8")


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["myst_parser"]\nsource_suffix = {".md": "markdown"}\n')
    (source / "index.md").write_text("# Home\n\n[there](nowhere.md)\n")
    done = build(source, tmp_path / "out")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
