"""Shards joined: the bytes of the whole run, or what is wrong with them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scale.conftest import files_of, parts, result

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def made(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards of the suite, in folders 1 to 3."""
    from replaycheck.cli.main import invoke
    from replaycheck.replay import batches
    from tests.scale.conftest import PART

    folder = tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "OBSERVATIONS", PART)
        patch.setattr(batches, "SEPARATE", 0)
        for number in (1, 2, 3):
            options = ["--shard", f"{number}/3", "--out", str(folder / str(number)), "--workers", "1"]
            assert invoke(["run", str(suite), "--subject", "null", *options]) == 0
    return folder


@pytest.fixture
def shards(made: Path, tmp_path: Path) -> list[Path]:
    """Copies that a test may spoil, not in their order."""
    return [Path(shutil.copytree(made / number, tmp_path / number)) for number in ("3", "1", "2")]


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


def test_three_shards_are_the_whole_run(shards: list[Path], whole: Path, tmp_path: Path, replaycheck: Run) -> None:
    assert replaycheck("merge", *shards, "--out", tmp_path / "merged").code == 0
    assert files_of(tmp_path / "merged") == files_of(whole)
    assert (tmp_path / "merged" / "report.html").exists()


def test_shards_divide_the_parts_and_judge_nothing(shards: list[Path], whole: Path) -> None:
    assert sorted(name for shard in shards for name in parts(shard)) == list(parts(whole))
    assert not any((shard / "result.json").exists() for shard in shards)
    assert result(whole)["summary"]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [((0, 1), "shard 2/3 is missing"), ((0,), "shard 1/3, 2/3 is missing"), ((0, 1, 2, 1), "both shard 1/3")],
)
def test_missing_and_duplicate_shards_are_named(
    chosen: tuple[int, ...], words: str, shards: list[Path], tmp_path: Path, replaycheck: Run
) -> None:
    outcome = replaycheck("merge", *(shards[index] for index in chosen), "--out", tmp_path / "merged")
    assert outcome.code == 2 and words in outcome.err
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize(
    ("file", "edit", "words"),
    [
        ("environment.json", lambda e: e["inputs"].update({"suite digest": "other"}), ("suite digest", "'other'")),
        ("environment.json", lambda e: e["inputs"].update({"model digest": "w2"}), ("model digest", "'w2'")),
        ("environment.json", lambda e: e["versions"].update({"numpy": "0.1"}), ("version of numpy", "'0.1'")),
        ("shard.json", lambda e: e.update({"seed": 7}), ("seed", "7")),
    ],
)
def test_unlike_shards_are_refused_with_the_difference(
    file: str, edit: Callable[..., None], words: tuple[str, ...], shards: list[Path], tmp_path: Path, replaycheck: Run
) -> None:
    change(shards[2] / file, edit)
    outcome = replaycheck("merge", *shards, "--out", tmp_path / "merged")
    assert outcome.code == 2 and all(word in outcome.err for word in words), outcome.err
    assert not (tmp_path / "merged").exists()


def test_a_lost_part_and_a_part_twice_are_named(shards: list[Path], tmp_path: Path, replaycheck: Run) -> None:
    name = parts(shards[1])[2]
    (shards[1] / "groups" / f"{name}.json").unlink()
    assert f"lacks part '{name}'" in replaycheck("merge", *shards, "--out", tmp_path / "merged").err
    shutil.copytree(shards[2], shards[1], dirs_exist_ok=True)
    change(shards[1] / "shard.json", lambda record: record.update({"shard": "1/3"}))
    outcome = replaycheck("merge", *shards, "--out", tmp_path / "merged")
    assert outcome.code == 2 and f"part '{parts(shards[2])[0]}' is in" in outcome.err


def test_a_whole_run_and_an_unfinished_shard_are_no_shards(
    shards: list[Path], whole: Path, tmp_path: Path, replaycheck: Run
) -> None:
    assert "is a whole run" in replaycheck("merge", whole, *shards[1:], "--out", tmp_path / "merged").err
    (shards[0] / "shard.json").unlink()
    assert "wasn't finished" in replaycheck("merge", *shards, "--out", tmp_path / "merged").err


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"])
def test_a_shard_that_is_none_is_refused(text: str, run_here: Run, tmp_path: Path) -> None:
    outcome = run_here("--shard", text, "--out", tmp_path / "run")
    assert outcome.code == 2 and "i/n" in outcome.err
    assert not (tmp_path / "run").exists()
