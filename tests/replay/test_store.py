"""The run directory: what existed is never lost, a kill loses the group in flight only, equal runs have equal bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from replaycheck.errors import InternalError, UsageError
from replaycheck.json_files import write_json
from replaycheck.replay import parts
from replaycheck.replay.environment import describe
from replaycheck.replay.store import (
    Run,
    create_run,
    groups_done,
    iter_groups,
    open_run,
    read_environment,
    read_result,
    read_table,
    write_part,
)
from replaycheck.schema.tables import TABLES
from tests import synthetic_result as made

ENVIRONMENT = describe({"suite": "s1", "model": "m1"}, "cpu", command=["replaycheck"])


@pytest.fixture
def filled(tmp_path: Path) -> Run:
    run = made.started(tmp_path / "run")
    made.fill(run)
    return run


def only(run: Run, table: str) -> Path:
    return run.path / table / "g.parquet"


def test_default_folder_is_named_by_time_and_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = create_run(ENVIRONMENT), create_run(ENVIRONMENT)
    assert first.path.parent == Path("reports")
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{4}", first.path.name)
    assert first.path != second.path


def test_an_existing_run_is_refused_without_resume(filled: Run) -> None:
    with pytest.raises(UsageError, match="already holds a run"):
        create_run(ENVIRONMENT, filled.path)


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="isn't empty; give --out"):
        create_run(ENVIRONMENT, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_refused_and_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        create_run(ENVIRONMENT, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert create_run(ENVIRONMENT, tmp_path / "empty").environment.is_file()


def test_resume_keeps_what_is_done_and_sweeps_what_was_in_flight(filled: Run) -> None:
    left_over = filled.path / "pairs" / ".g2.parquet.abc.tmp"
    left_over.write_bytes(b"half")
    run = create_run(ENVIRONMENT, resume=filled.path)
    assert groups_done(run) == {"g"}
    assert not left_over.exists()


def test_resume_with_other_inputs_is_refused(filled: Run) -> None:
    other = describe({"suite": "s2", "model": "m1"}, "cpu", command=["replaycheck"])
    with pytest.raises(UsageError, match="has suite 's1' and this one 's2'"):
        create_run(other, resume=filled.path)
    assert read_environment(filled).inputs["suite"] == "s1"


def test_resume_of_what_is_no_run_and_contradicting_options_are_refused(tmp_path: Path, filled: Run) -> None:
    with pytest.raises(UsageError, match="isn't a run"):
        create_run(ENVIRONMENT, resume=tmp_path)
    with pytest.raises(UsageError, match="differ"):
        create_run(ENVIRONMENT, tmp_path / "other", resume=filled.path)


def test_a_group_without_its_record_is_not_done(filled: Run) -> None:
    (filled.path / "groups" / "g.json").unlink()
    assert groups_done(filled) == frozenset()


def test_tables_come_back_with_the_rows_of_all_parts_in_key_order(filled: Run) -> None:
    rows = read_table(filled, "pairs")
    write_part(filled, "pairs", "a", rows.assign(trace="0" + rows["trace"]).sample(frac=1, random_state=0))
    both = read_table(filled, "pairs")
    assert len(both) == 2 * len(rows)
    assert both[["cell", "trace"]].equals(both[["cell", "trace"]].sort_values(["cell", "trace"], ignore_index=True))
    pd.testing.assert_frame_equal(both[~both["trace"].str.startswith("0")].reset_index(drop=True), rows)


def test_a_table_without_parts_is_empty_with_its_columns(tmp_path: Path) -> None:
    frame = read_table(made.started(tmp_path / "run"), "restores")
    assert frame.empty
    assert list(frame.columns) == TABLES["restores"].names


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: b"", lambda data: b"PAR1" + data[4:-9] + b"x" * 9]
)
def test_a_damaged_part_is_named(filled: Run, damage: object) -> None:
    path = only(filled, "pairs")
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(UsageError, match=re.escape(str(path)) + ".*isn't a complete parquet file"):
        read_table(filled, "pairs")


def test_a_part_with_other_columns_is_refused(filled: Run) -> None:
    path = only(filled, "pairs")
    pq.write_table(pq.read_table(path).drop(["kl"]), path)
    with pytest.raises(UsageError, match="doesn't have the columns"):
        read_table(filled, "pairs")


def test_a_claim_of_too_many_rows_is_refused(filled: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_ROWS", 5)
    with pytest.raises(UsageError, match="rows; at most 5"):
        read_table(filled, "pairs")


def test_the_same_row_in_two_parts_is_refused(filled: Run) -> None:
    (filled.path / "pairs" / "copy.parquet").write_bytes(only(filled, "pairs").read_bytes())
    with pytest.raises(UsageError, match="holds the same row in two parts"):
        read_table(filled, "pairs")


def test_links_in_a_run_are_not_followed(filled: Run, tmp_path: Path) -> None:
    outside = tmp_path / "outside.parquet"
    only(filled, "pairs").rename(outside)
    only(filled, "pairs").symlink_to(outside)
    with pytest.raises(UsageError, match="symbolic link"):
        read_table(filled, "pairs")
    (filled.path / "restores").rename(tmp_path / "elsewhere")
    (filled.path / "restores").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="symbolic link"):
        write_part(filled, "restores", "h", read_table(made.started(tmp_path / "new"), "restores"))


@pytest.mark.parametrize("group", ["../outside", "a/b", "", ".hidden", "x" * 65])
def test_a_group_name_cannot_lead_outside(filled: Run, group: str) -> None:
    with pytest.raises(InternalError, match="isn't a name"):
        write_part(filled, "pairs", group, read_table(filled, "pairs"))


def test_equal_runs_have_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made.whole(tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    same = [file for file in files if (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()]
    assert {str(file) for file in files} - {str(file) for file in same} <= {"environment.json"}
    assert {"result.json", "divergences.parquet", "observations/g.parquet"} <= {str(file) for file in same}


def test_row_order_does_not_change_the_bytes(filled: Run) -> None:
    before = only(filled, "observations").read_bytes()
    rows = read_table(filled, "observations")
    write_part(filled, "observations", "g", rows.sample(frac=1, random_state=1))
    assert only(filled, "observations").read_bytes() == before


def test_parts_hold_no_metadata_of_pandas(filled: Run) -> None:
    assert b"pandas" not in only(filled, "pairs").read_bytes()


def test_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    result = made.whole(tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert read_result(run) == result
    text = run.result.read_text()
    assert text.endswith("}\n")
    assert str(tmp_path) not in text


def test_an_unfinished_or_damaged_result_is_refused(filled: Run) -> None:
    with pytest.raises(UsageError, match=r"has no result\.json"):
        read_result(filled)
    filled.result.write_text('{"suite": 1')
    with pytest.raises(UsageError, match=r"result\.json"):
        read_result(filled)


def test_a_damaged_group_record_is_named(filled: Run) -> None:
    path = filled.path / "groups" / "g.json"
    path.write_text(path.read_text().replace('"arms"', '"legs"', 1))
    with pytest.raises(UsageError, match=r"g\.json.*legs|g\.json.*arms"):
        list(iter_groups(filled))


def test_json_refuses_nan(tmp_path: Path) -> None:
    bad = ENVIRONMENT.model_copy(update={"seconds": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", bad)
    assert not (tmp_path / "x.json").exists()
