"""A real Chromium, started once for all tests of this folder; skipped where the machine has none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaycheck.replay.store import Run, read_table, write_whole
from replaycheck.report.privacy import mark_text
from replaycheck.report.write import write_all
from replaycheck.schema.frames import to_arrow
from tests.report.conftest import synthesise

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\u202egnp.exe\u200b\x1b[31m&amp;"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = os.environ.get("REPLAYCHECK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on this machine (apt install chromium, or set REPLAYCHECK_CHROMIUM)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright isn't installed (extra dev)")
    with playwright.sync_playwright() as driver:
        # The pages are our own files; a sandbox needs rights that containers of CI don't give.
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """report.html of a run that passes, and of one that fails and whose trace names are hostile."""
    folder = tmp_path_factory.mktemp("browser")
    for name in ("passing", "failing"):
        synthesise(folder / name, name == "failing", positions=20)
    run = Run(folder / "failing")
    rows = read_table(run, "divergences")
    rows["trace"] = rows["trace"].replace({"trace-0": HOSTILE})
    write_whole(run, "divergences", [to_arrow("divergences", rows)])
    mark_text(run, "public")
    return {name: write_all(folder / name) for name in ("passing", "failing")}
