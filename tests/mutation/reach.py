"""Which tests run which lines, from one pass under coverage.py, and how long each test takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import coverage

IMPORT = ""
"""What coverage.py calls a line's context before the first test: imports and collection."""


@dataclass(frozen=True)
class Reach:
    """``contexts``: by module and line, the tests that run it; ``seconds``: of CPU, by test."""

    contexts: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def tests(self, module: str, lines: tuple[int, int]) -> set[str]:
        """The tests that run any of these lines; IMPORT among them if they run before the first test."""
        found = self.contexts.get(module, {})
        return {test for line, tests in found.items() if lines[0] <= line <= lines[1] for test in tests}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.contexts, self.seconds]))

    @staticmethod
    def load(path: Path) -> Reach:
        contexts, seconds = json.loads(path.read_text())
        by_line = {module: {int(line): tests for line, tests in of.items()} for module, of in contexts.items()}
        return Reach(by_line, seconds)


class Watch:
    """Sees what each test of this process runs; whatever runs outside of tests counts as IMPORT."""

    def __init__(self, root: Path, package: str) -> None:
        self.root, self.seconds = root, dict[str, float]()
        self.coverage = coverage.Coverage(data_file=None, config_file=False, include=[f"{root / package}/*"])
        self.coverage.start()

    @contextmanager
    def test(self, name: str) -> Iterator[None]:
        """What runs inside is the test's."""
        self.coverage.switch_context(name)
        begin = time.process_time()
        yield
        self.seconds[name] = time.process_time() - begin

    def reach(self) -> Reach:
        """What was seen so far; watching ends."""
        self.coverage.stop()
        data = self.coverage.get_data()
        names = {str(Path(file).relative_to(self.root)): file for file in data.measured_files()}
        return Reach({name: data.contexts_by_lineno(file) for name, file in names.items()}, self.seconds)
