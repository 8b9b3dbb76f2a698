"""Writing: whole or not at all, and nothing that could not be read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces.write import write_groups


def test_defaults_are_left_out_and_the_line_ends(group: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_groups(path, [Group.model_validate(group)])
    text = path.read_text()
    assert text.endswith("}\n")
    assert '"parent":null' in text
    assert "sampled" not in text
    assert "archetype" not in text


def test_a_group_that_could_not_be_read_leaves_the_old_file(group: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("precious")
    wrong = Group.model_validate(group | {"vocabulary": "bpe"})
    with pytest.raises(UsageError, match=r"group 'g' can't be written: vocabulary: 'bpe' is unknown"):
        write_groups(path, [wrong])
    with pytest.raises(UsageError, match="group 'g' is given twice"):
        write_groups(path, [Group.model_validate(group)] * 2)
    with pytest.raises(UsageError, match="no group to write"):
        write_groups(path, [])
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_rename_leaves_the_old_file(
    group: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("precious")

    def fail(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_groups(path, [Group.model_validate(group)])
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(group: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"can't be written \(No such file or directory\); give a path in a folder"):
        write_groups(tmp_path / "none" / "t.jsonl", [Group.model_validate(group)])
