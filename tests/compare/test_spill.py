"""The scratch folder of a summary: values come back by cell, rows in key order, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from replaycheck.compare.spill import BLOCK, FOLDER, Spill
from replaycheck.errors import UsageError
from replaycheck.schema.frames import to_arrow, to_frame
from replaycheck.schema.tables import DIVERGENCES


def parted(*places: tuple[str, str, int, int | None]) -> pa.Table:
    """DIVERGENCES rows: cell, trace, branch, and the offset, null where the cell restores nothing."""
    cells, traces, branches, offsets = zip(*places, strict=True)
    n = len(places)
    return to_arrow(
        "divergences",
        {
            "cell": cells, "trace": traces, "branch": branches, "turn": [1] * n, "position": [9] * n,
            "offset_from_restore": offsets, "kind": ["bits"] * n, "token_a": [None] * n, "token_b": [3] * n,
            "margin": [None] * n, "dlogp": [0.25] * n, "censored": [True] * n, "experiment": ["forced"] * n,
        },
    )  # fmt: skip


def test_values_come_back_by_cell_in_the_order_they_came(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        for cell, values in ((0, [1.0, 2.0]), (1, [9.0]), (0, []), (0, [3.0])):
            spill.add_values(cell, np.array(values))
        assert np.concatenate(list(spill.values(0))).tolist() == [1.0, 2.0, 3.0]
        assert [spill.count(cell) for cell in (0, 1, 2)] == [3, 1, 0]
        assert not list(spill.values(2))
        spill.add_values(0, np.array([4.0]))  # reading and writing take turns
        assert np.concatenate(list(spill.values(0))).tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1])
def test_a_slice_longer_than_a_block_is_read_in_blocks(size: int, tmp_path: Path) -> None:
    values = np.arange(size, dtype=np.float64)
    with Spill(tmp_path) as spill:
        spill.add_values(0, np.array([-1.0]))
        spill.add_values(1, values)
        blocks = list(spill.values(1))
    assert max(map(len, blocks)) <= BLOCK
    assert np.array_equal(np.concatenate(blocks), values)


def test_a_trace_in_two_parts_is_refused(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        spill.add_traces(["a", "b"], "one")
        with pytest.raises(UsageError, match="'two' holds the same row in two parts: trace 'b' is in another part"):
            spill.add_traces(["c", "b"], "two")
        assert spill.traces == 3


def test_the_parts_that_hold_some_traces_are_told_once_by_name(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        spill.add_places(["a", "b"], "later")
        spill.add_places(["b", "c"], "earlier")
        assert spill.places(["b", "a"]) == ["earlier", "later"]
        assert spill.places(["a"]) == ["later"]
        assert spill.places(["z"]) == []


def test_means_come_by_cell_cluster_and_trace(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        spill.add_means([(1, "x", "t", 1.0), (0, "y", "u", 2.0), (0, "y", "t", 3.0)])
        spill.add_means([(0, "x", "v", 4.0)])
        assert list(spill.means()) == [(0, "x", 4.0), (0, "y", 3.0), (0, "y", 2.0), (1, "x", 1.0)]


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_divergences_of_several_parts_come_back_sorted_and_whole(rows: int, tmp_path: Path) -> None:
    whole = [("a", "t", 0, 4), ("a", "t", 1, None), ("b", "s", 0, 2)]
    with Spill(tmp_path) as spill:
        for place in reversed(whole):
            spill.add_parted(parted(place))
        tables = list(spill.parted(rows))
    assert max(table.num_rows for table in tables) <= rows
    assert pa.concat_tables(tables).to_pylist() == parted(*whole).to_pylist()


def test_without_divergences_there_is_one_empty_table(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        [table] = spill.parted(10)
    assert table.schema.equals(DIVERGENCES)
    assert to_frame(table).empty


def fail_inside(run: Path) -> None:
    with Spill(run) as spill:
        assert spill.count(0) == 0
        assert (run / FOLDER).is_dir()
        raise RuntimeError


def test_the_folder_goes_also_after_an_error_and_what_a_killed_run_left(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "floats").write_bytes(b"old")
    with pytest.raises(RuntimeError):
        fail_inside(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_a_link_in_its_place_is_taken_away_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("kept")
    (tmp_path / FOLDER).symlink_to(elsewhere)
    with Spill(tmp_path):
        assert not (tmp_path / FOLDER).is_symlink()
    assert (elsewhere / "file").read_text() == "kept"
