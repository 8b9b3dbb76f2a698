"""Results of mutants, one JSON object a line, so that a run can be stopped and taken up again.

A kill holds while the module is the same; that a mutant lives holds while the tests are the same, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from tests.mutation.changes import Mutant

Outcome = Literal["killed", "limit", "lives", "not covered"]
LIVES: tuple[Outcome, ...] = ("lives", "not covered")


@dataclass(frozen=True)
class Found:
    """``by``: the test that killed it. ``limit``: it took more CPU or memory than it may, which kills it."""

    module: str
    place: int
    source: str
    tests: str
    outcome: Outcome
    by: str
    seconds: float
    told: str


class Results:
    """The results in a file that hold for a package and its tests as they are under ``root``."""

    def __init__(self, path: Path, root: Path, tests: str) -> None:
        self.path, self.root = path, root
        self.tests = _digest(_files(root / "tests", root / tests))
        self._sources: dict[str, str] = {}
        self._found: dict[tuple[str, int], Found] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            found = Found(**json.loads(line))
            if self._holds(found):
                self._found[found.module, found.place] = found

    def of(self, mutant: Mutant) -> Found | None:
        """What is known of a mutant."""
        return self._found.get((mutant.module, mutant.place))

    def add(self, mutant: Mutant, outcome: Outcome, by: str, seconds: float) -> None:
        """Keep a result, in the file at once."""
        source = self._source(mutant.module)
        found = Found(mutant.module, mutant.place, source, self.tests, outcome, by, round(seconds, 2), mutant.told)
        self._found[mutant.module, mutant.place] = found
        with self.path.open("a") as lines:
            lines.write(json.dumps(asdict(found)) + "\n")

    def _holds(self, found: Found) -> bool:
        same = (self.root / found.module).exists() and found.source == self._source(found.module)
        return same and (found.outcome not in LIVES or found.tests == self.tests)

    def _source(self, module: str) -> str:
        if module not in self._sources:
            self._sources[module] = _digest([self.root / module])
        return self._sources[module]


def _files(root: Path, folder: Path) -> list[Path]:
    """The tests of a folder, the conftest, and what either imports of the modules beside it."""
    mine = [root / "conftest.py", *sorted(folder.rglob("*.py"))]
    text = "".join(path.read_text() for path in mine if path.exists())
    beside = sorted(path for path in root.glob("*.py") if f"from {root.name}.{path.stem} " in text)
    return [path for path in mine if path.exists()] + beside


def _digest(paths: Iterable[Path]) -> str:
    text = blake2b(digest_size=8)
    for path in paths:
        text.update(path.read_bytes())
    return text.hexdigest()
