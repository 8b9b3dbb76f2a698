"""Files of other formats, made by hand, and short ways to import them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaycheck.schema.trace import Group
from replaycheck.traces.importers import Context, Options, choose, import_groups

JSON = dict[str, Any]


class Import:
    """``do("weka", value, ...)`` writes the values as files, one a line for a list, and imports them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = Context()

    def file(self, value: object, name: str = "source.json") -> Path:
        path = self.folder / name
        if isinstance(value, bytes):
            path.write_bytes(value)
        elif isinstance(value, str):
            path.write_text(value, encoding="utf-8")
        elif isinstance(value, list):
            path.write_text("".join(json.dumps(each) + "\n" for each in value), encoding="utf-8")
        else:
            path.write_text(json.dumps(value), encoding="utf-8")
        return path

    def __call__(self, name: str, *values: object, **options: Any) -> list[Group]:
        paths = [v if isinstance(v, Path) else self.file(v, f"source{i}.json") for i, v in enumerate(values)]
        self.context = Context(Options(**options))
        return list(import_groups(choose(name, paths), self.context))

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self.context.log.dropped)

    @property
    def noted(self) -> dict[str, int]:
        return dict(self.context.log.noted)


@pytest.fixture
def do(tmp_path: Path) -> Import:
    return Import(tmp_path)


def texts(group: Group, trace: int = 0) -> dict[str, str]:
    """The text of each turn by id."""
    return {turn.id: turn.text for turn in group.traces[trace].turns}


def parents(group: Group, trace: int = 0) -> dict[str, str | None]:
    return {turn.id: turn.parent for turn in group.traces[trace].turns}


def asked(group: Group) -> list[str]:
    return [request.turn for request in group.requests]


Check = Callable[..., None]
