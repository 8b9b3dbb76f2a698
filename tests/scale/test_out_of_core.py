"""Summaries part by part: the same numbers however the traces are cut, and no memory that grows with them."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replaycheck.bench.sessions import Shape, write_sessions
from replaycheck.errors import UsageError
from replaycheck.replay import batches
from replaycheck.replay.across import compare_runs
from replaycheck.replay.assemble import collect
from replaycheck.replay.groups import Groups
from replaycheck.replay.parts import read_table
from replaycheck.replay.run import run_whole
from replaycheck.replay.settings import Settings, resolve
from replaycheck.replay.stage import How
from replaycheck.replay.store import Run as Folder
from replaycheck.replay.store import open_run
from replaycheck.report.saved import load
from replaycheck.report.streams import PAIR_COLUMNS, spreads, whole
from replaycheck.schema.arm import Effect
from replaycheck.schema.result import Result
from tests.scale.conftest import PART, parts

Cut = Callable[[int, Path], Folder]


@pytest.fixture(scope="module")
def settings(suite: Path) -> Settings:
    return resolve(suite, subject="tests.scale.noisy:factory")[0]


@pytest.fixture(scope="module")
def cut(settings: Settings) -> Cut:
    """A run in parts of so many observations."""

    def run(observations: int, out: Path) -> Folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches, "OBSERVATIONS", observations)
            patch.setattr(batches, "SEPARATE", 0)
            return run_whole(settings, How(1), out)[0]

    return run


@pytest.fixture(scope="module")
def small(cut: Cut, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut(PART, tmp_path_factory.mktemp("noisy") / "small").path


@pytest.fixture(scope="module")
def large(cut: Cut, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut(10**9, tmp_path_factory.mktemp("noisy") / "large").path


def result(run: Path) -> Result:
    return Result.model_validate_json((run / "result.json").read_text())


def test_the_cut_into_parts_changes_no_number(small: Path, large: Path) -> None:
    assert (len(parts(small)), len(parts(large))) == (15, 1)
    one, other = (json.loads((run / "result.json").read_text()) for run in (small, large))
    for found in (one, other):
        found.pop("attributions", None)  # sums of squares, whose last bits depend on the order of parts
    assert one == other
    assert (small / "divergences.parquet").read_bytes() == (large / "divergences.parquet").read_bytes()
    state = next(cell for cell in result(small).cells if cell.effect is Effect.STATE)
    assert state.bits_differ == state.positions and state.kl_mean.n == 60 and state.abs_dlogp["p50"] > 0


def test_cells_are_what_pandas_says_of_the_whole_tables(small: Path) -> None:
    pairs = read_table(open_run(small), "pairs")
    cells = result(small).cells
    assert len(cells) == 4
    for cell in cells:
        mine = pairs[pairs["cell"] == cell.name]
        size = mine["dlogp"].abs()
        assert (cell.positions, cell.flips) == (len(mine), int(mine["flip"].sum()))
        assert cell.abs_dlogp["p90"] == np.quantile(size, 0.9, method="inverted_cdf")
        assert cell.abs_dlogp["max"] == size.max()
        assert cell.worst_trace_abs_dlogp.value == size.groupby(mine["trace"]).mean().max()
        assert cell.kl_mean.value == pytest.approx(mine.groupby("trace")["kl"].mean().mean(), rel=1e-12)


def test_two_runs_are_compared_however_each_is_cut(small: Path, large: Path) -> None:
    found = compare_runs(small, large)
    assert len(found.arms) == 5 and not found.unmatched
    for arm in found.arms:
        assert (arm.positions, arm.only_a, arm.only_b, arm.bits_differ) == (600, 0, 0, 0)


def test_the_chart_counts_every_position(small: Path) -> None:
    saved = load(small)
    found = whole(spreads(saved.result, saved.blocks("pairs", *PAIR_COLUMNS)))
    assert {effect for effect, _ in found} == {cell.effect for cell in saved.result.cells}
    for (effect, _), spread in found.items():
        cells = [cell for cell in saved.result.cells if cell.effect is effect]
        assert spread.count == sum(cell.positions for cell in cells)
        if len(cells) == 1 and cells[0].abs_dlogp["p50"] > 0:
            assert spread.quantile(0.5) == pytest.approx(cells[0].abs_dlogp["p50"], rel=2**-8)


def test_a_trace_in_two_parts_is_refused(small: Path, settings: Settings, tmp_path: Path) -> None:
    run = Path(shutil.copytree(small, tmp_path / "run"))
    for folder, suffix in (
        ("observations", "parquet"),
        ("pairs", "parquet"),
        ("restores", "parquet"),
        ("groups", "json"),
    ):
        shutil.copy(run / folder / f"s0000004.{suffix}", run / folder / f"copy.{suffix}")
    with pytest.raises(UsageError, match="the same row in two parts: trace 's0000004'"):
        collect(open_run(run), settings.arms, settings.cells)
    assert not (run / ".spill.tmp").exists()


def test_a_lost_part_is_named(small: Path, settings: Settings, tmp_path: Path) -> None:
    run = Path(shutil.copytree(small, tmp_path / "run"))
    (run / "pairs" / "s0000008.parquet").unlink()
    with pytest.raises(UsageError, match=r"pairs/s0000008\.parquet"):
        collect(open_run(run), settings.arms, settings.cells)


def test_summing_up_takes_no_more_memory_for_more_traces(settings: Settings, small: Path, tmp_path: Path) -> None:
    """Python's and numpy's own allocations; four times the parts, copies with other names of traces."""

    def peak(run: Path) -> int:
        tracemalloc.start()
        collect(open_run(run), settings.arms, settings.cells)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few = Path(shutil.copytree(small, tmp_path / "few"))
    for folder in ("observations", "pairs", "restores", "groups"):
        for path in sorted((few / folder).iterdir())[4:]:
            path.unlink()
    peak(few)  # what is imported and cached once
    assert peak(small) < 1.3 * peak(few)


def test_groups_are_read_by_offset_in_the_order_of_their_files(tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    write_sessions(files[0], 3, Shape(1, 5, 3))
    lines = files[0].read_text().replace("s000000", "z000000")
    files[1].write_text("\n" + lines + "\n")
    groups = Groups.read(files)
    assert [group.group[0] for group in groups] == ["s"] * 3 + ["z"] * 3
    assert groups[4].group == "z0000001" and groups[-1].group == "z0000002"
    assert list(groups.scored) == [3] * 6
    assert json.loads(groups.raw(5))["group"] == "z0000002"


def test_groups_and_traces_that_are_there_twice_are_named(tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    write_sessions(files[0], 2, Shape(1, 5, 3))
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    files[1].write_text(json.dumps(lines[1]) + "\n")
    with pytest.raises(UsageError, match=r"group 's0000001' is in .*a\.jsonl and in .*b\.jsonl"):
        Groups.read(files)
    other: dict[str, Any] = lines[1] | {"group": "other"}
    files[1].write_text(json.dumps(other) + "\n")
    with pytest.raises(UsageError, match=r"trace 's0000001' is in .*a\.jsonl and in .*b\.jsonl"):
        Groups.read(files)


def test_a_file_that_changes_under_a_run_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_sessions(path, 3, Shape(1, 5, 3))
    groups = Groups.read([path])
    # As long as before: each line is where it was, and is another group.
    path.write_text(path.read_text().replace("s000000", "z000000"))
    with pytest.raises(UsageError, match="was changed while the run read it"):
        list(groups)
