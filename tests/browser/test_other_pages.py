"""The pages that aren't a run's report: they fit any width and paper, and stand out from what is behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replaycheck.faults.shipped import FAULTS
from replaycheck.report.architectures_html import architectures_page
from replaycheck.report.probe_html import probe_page
from replaycheck.report.selftest_html import selftest_page
from replaycheck.report.sweep_html import sweep_page
from replaycheck.schema.architectures import (
    ArchitectureCell,
    ArchitectureOperation,
    ArchitectureRow,
    ArchitectureTable,
    OperationVerdict,
)
from replaycheck.schema.arm import Activation, Answers, PoolDtype
from replaycheck.schema.probe_table import CellVerdict, ProbeCell, ProbeProperty, ProbeRow, ProbeTable
from replaycheck.schema.probe_times import ProbeTimes, RowTimes
from replaycheck.schema.selftest import CellRecord, Selftest, SignatureRecord
from replaycheck.schema.sweep import Difference, Sweep, SweepRow
from replaycheck.selftest.matrix import Found, control_rows, fault_rows
from tests.report.conftest import ENVIRONMENT

from .test_legible import CONTRAST, DRAWN, OPEN_ALL, PAPER, WIDE
from .test_report_page import ESCAPED, OVERFLOW, WIDTHS, opened

LONG = "an_error_with_a_very_long_name_that_has_no_space_in_it: " * 3
FIRST = "regenerate_and_fork/12/3@12345"
LOOKS = SignatureRecord(
    onset="after the restore", conv="another window", state="another state", grid="off the chunk grid"
)
COLUMNS = 7
"""Of the widest group of kernels' properties."""


def architectures() -> str:
    verdicts: tuple[OperationVerdict, ...] = ("exact", "noise", "fault", "crashed", "refused", "fault", "noise")
    names = [f"operation-{at}" for at in range(len(verdicts))]
    operations = [ArchitectureOperation(name=name, group="continue", meaning="a word or two " * 3) for name in names]
    cells = [
        ArchitectureCell(
            operation=name, verdict=verdict, sentence=LONG, size=None if verdict in ("exact", "crashed") else 2.5,
            first_wrong=40 if verdict == "fault" else None, wrong=1, compared=9,
            script="import torch\nif 1:\n    " + "x" * 200,
        )
        for name, verdict in zip(names, verdicts, strict=True)
    ]  # fmt: skip
    rows = [
        ArchitectureRow(
            name=f"a_long_model_type_{at}", model="M", control=False, parameters=1, floor=1e-6, cells=tuple(cells)
        )
        for at in range(3)
    ]
    table = ArchitectureTable(
        transformers="5.23.0", torch="2.13.0", dtype="fp32", seed=0, operations=tuple(operations), rows=tuple(rows)
    )
    return architectures_page(table, ENVIRONMENT)


def probes() -> str:
    properties = [
        ProbeProperty(name=f"off-grid-{at}", group="numbers", meaning="a word or two " * 3) for at in range(COLUMNS)
    ]
    verdicts: tuple[CellVerdict, ...] = ("exact", "noise", "broken", "can't")
    cells = [
        ProbeCell(property=each.name, verdict=verdict, sentence=LONG, number=5.2e-3, predicted=9e-3, example=LONG)
        for each, verdict in zip(properties, verdicts * 2, strict=False)
    ]
    row = ProbeRow(
        provider="ours", version="1", kernel="ours/chunk-emulator", kind="kda", form="chunk", recipe="sglang", claimed=True,
        cells=tuple(cells),
    )  # fmt: skip
    table = ProbeTable(
        device="cpu", autotune=None, seed=0, properties=tuple(properties), rows=(row,), not_probed={"x": LONG},
        warnings=(LONG,), probes=(),
    )  # fmt: skip
    times = RowTimes(
        provider="ours", kernel="ours/chunk", kind="kda", first=1.0, properties={}, tuned={"k" * 60: ("c" * 90,)}
    )
    return probe_page(table, ProbeTimes(rows=(times,)), ENVIRONMENT)


def selftest() -> str:
    seen = [
        Found(
            "cell",
            name,
            CellRecord(seed=0, cell=fault.cells[0].name, failed=fault.claims[at % 2 :], first=FIRST, signature=LOOKS),
        )
        for at, (name, fault) in enumerate(FAULTS.items())
        if fault.cells
    ]
    loud = Found("control", "plain", CellRecord(seed=0, cell="c", failed=("exact/logits-bits",)))
    found = Selftest(
        model="m", seeds=(0,), device="cpu", quick=False, admission=(),
        faults=fault_rows([each.name for each in seen], seen),
        controls=control_rows([loud]), seconds={"matrix": 1.0},
    )  # fmt: skip
    return selftest_page(found)


def sweep() -> str:
    def difference(p99: float) -> Difference:
        return Difference(
            positions=830, bits_differ=1, p99=p99, max=2 * p99, flips=1, first_divergence=5, diverged=1, branches=18
        )

    rows = [
        SweepRow(
            interval=interval, pool=pool, activation=activation, hits=31, recomputed=again, states=41, bytes_a_state=1000,
            bytes_stored=again * 1000, grid=difference(0.1), state=difference(0.02), total=difference(0.1 + 0.01 * at),
            state_error=0.1,
        )
        for activation in Activation
        for interval, again in (("64", 1383), ("128", 1200), ("end", 974))
        for at, pool in enumerate(PoolDtype)
    ]  # fmt: skip
    made = Sweep(
        suite="quick", suite_digest="0", model="m", model_digest="0", recipe="exact", kernels="ours", device="cpu", seed=0,
        answers=Answers.PREFILLED, groups=8, prompts=10_807, repeated=7_399, rows=tuple(rows),
    )  # fmt: skip
    return sweep_page(made, ENVIRONMENT)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for make in (architectures, probes, selftest, sweep):
        (folder / f"{make.__name__}.html").write_text(make(), encoding="utf-8")
    return {path.stem: path for path in folder.iterdir()}


NAMES = pytest.mark.parametrize("name", ["architectures", "probes", "selftest", "sweep"])


@NAMES
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_with_everything_open(browser: Any, pages: dict[str, Path], name: str, width: int) -> None:
    with opened(browser, pages[name], width) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate(OVERFLOW) == 0
        assert page.evaluate(ESCAPED) == []
        assert all(each["smallest"] >= 11 and not each["cut"] for each in page.evaluate(DRAWN))


@NAMES
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out(browser: Any, pages: dict[str, Path], name: str, dark: bool) -> None:
    with opened(browser, pages[name], dark=dark) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate(CONTRAST) == []


@NAMES
def test_paper_holds_all_of_it(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], PAPER, scripts=False) as page:
        page.emulate_media(media="print")
        for folded in page.locator("details > :not(summary)").all():
            assert folded.bounding_box()["height"] > 0
        assert page.evaluate(WIDE, PAPER) == []


def test_a_program_is_shown_line_by_line(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["architectures"]) as page:
        page.evaluate(OPEN_ALL)
        assert page.locator("pre").first.inner_text().splitlines()[:2] == ["import torch", "if 1:"]
