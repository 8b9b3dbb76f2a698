"""The process that tries mutants: it imports and collects once, then forks for each, which runs the tests that reach it."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.changes import Mutant
from tests.mutation.child import KILLED, Child, fork
from tests.mutation.reach import IMPORT, Reach, Watch
from tests.mutation.results import Outcome, Results
from tests.mutation.swap import Functions, forget

SLOWER, AT_LEAST = 5, 10
"""Limit of CPU: so many times what its tests take unchanged, and seconds for the fork and imports on top. A single test has
the same limit, so that a loop without an end isn't given the time of all the tests that come after it."""

SHORT = 0.1
"""Seconds of CPU, under coverage: the most that a test may take to be asked about what another module does at import."""

PROGRESS = 50
"""Mutants between two lines on stderr."""

PYTEST = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler")


class _Chosen:
    """A pytest plugin that runs the chosen tests in their order, before them those that the mutant gave another name."""

    def __init__(self, chosen: Sequence[str], known: Collection[str], seconds: Mapping[str, float]) -> None:
        self.order = {test: number for number, test in enumerate(chosen)}
        self.known, self.seconds = known, seconds

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        limit(self.seconds.get(item.nodeid, 0))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        mine = [item for item in items if item.nodeid in self.order or item.nodeid not in self.known]
        items[:] = sorted(mine, key=lambda item: self.order.get(item.nodeid, -1))


class Server:
    """A pytest plugin whose loop tries mutants instead of running the tests."""

    def __init__(self, root: Path, package: str, tests: str, todo: Sequence[Mutant], results: Results, jobs: int):
        self.root, self.package, self.tests, self.results, self.jobs = root, package, tests, results, jobs
        self.todo = todo
        self.watch = Watch(root, package)
        self.kills: Counter[str] = Counter()
        self.running: dict[Mutant, tuple[Child, float]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.reach = self._measured()
        self.functions = Functions(self.root / self.package)
        gc.collect()
        gc.freeze()
        for number, mutant in enumerate(sorted(self.todo, key=self._runs_at_import)):  # those cost most
            if number % PROGRESS == 0:
                print(f"{number:,} of {len(self.todo):,} mutants", file=sys.stderr, flush=True)
            self._wait(self.jobs - 1)
            self._start(mutant)
        self._wait(0)
        return True

    def _measured(self) -> Reach:
        """The tests unchanged, in a child, so that this process never ran one."""

        def work(folder: Path) -> bool:
            failed = _first_failure(list(self.items.values()), {}, self.watch)
            self.watch.reach().save(folder / "note") if not failed else (folder / "note").write_text(failed)
            return not failed

        child = fork(work, 1800)
        self.watch.coverage.stop()
        while (code := child.poll()) is None:
            time.sleep(0.1)
        if code:
            raise pytest.UsageError(f"the tests fail without any mutant: {child.note() or f'exit code {code}'}")
        reach = Reach.load(child.folder / "note")
        child.note()
        return reach

    def _start(self, mutant: Mutant) -> None:
        tests = self.reach.tests(mutant.module, mutant.lines)
        if not tests:
            self._tell(mutant, "not covered", "", 0.0)
            return
        again = self._runs_at_import(mutant)
        chosen = sorted(self._at_import(mutant.module) if again else tests, key=self._worth, reverse=True)
        seconds = AT_LEAST + SLOWER * sum(self.reach.seconds[test] for test in chosen)

        def work(folder: Path) -> bool:
            if again or not self.functions.swap(self.root, mutant):
                return self._imported_again(mutant, chosen)
            failed = _first_failure([self.items[test] for test in chosen], self.reach.seconds)
            (folder / "note").write_text(failed)
            return not failed

        self.running[mutant] = fork(work, seconds), time.monotonic()

    def _worth(self, test: str) -> float:
        """Kills so far for each second of CPU: what killed many is asked first, and a fast one before a slow one."""
        return (1 + self.kills[test]) / (0.01 + self.reach.seconds[test])

    def _runs_at_import(self, mutant: Mutant) -> bool:
        return not mutant.within or IMPORT in self.reach.tests(mutant.module, mutant.lines)

    def _at_import(self, module: str) -> list[str]:
        """Tests that may see what the module does at import: those that run any of its lines, and all that are short.

        Left out are long ones that never enter the module; one that lives may be noticed by these alone.
        """
        enter = self.reach.tests(module, (1, sys.maxsize))
        return [test for test in self.items if test in enter or self.reach.seconds[test] < SHORT]

    def _imported_again(self, mutant: Mutant, chosen: Sequence[str]) -> bool:
        """The chosen tests, collected once more."""
        forget(self.root, mutant)
        plugin = _Chosen(chosen, self.items, self.reach.seconds)
        return pytest.main([*PYTEST, "-x", self.tests], plugins=[plugin]) == pytest.ExitCode.OK

    def _wait(self, most: int) -> None:
        """Until at most so many children run."""
        while len(self.running) > most:
            for mutant, (child, begin) in list(self.running.items()):
                if (code := child.poll()) is not None:
                    del self.running[mutant]
                    outcome: Outcome = {0: "lives", KILLED: "killed"}.get(code, "limit")  # type: ignore[assignment]
                    self._tell(mutant, outcome, child.note(), time.monotonic() - begin)
            time.sleep(0.002)

    def _tell(self, mutant: Mutant, outcome: Outcome, by: str, seconds: float) -> None:
        self.kills[by] += 1
        self.results.add(mutant, outcome, by, seconds)


def limit(seconds: float) -> None:
    """SIGPROF ends this process if the next test takes much more CPU than the seconds that it takes unchanged."""
    signal.setitimer(signal.ITIMER_PROF, AT_LEAST + SLOWER * seconds)


def _first_failure(items: Sequence[pytest.Item], seconds: Mapping[str, float], watch: Watch | None = None) -> str:
    """The first test that fails; those after it don't run. "" if all pass. ``seconds``: limit those that are in it."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        if item.nodeid in seconds:
            limit(seconds[item.nodeid])
        with watch.test(item.nodeid) if watch else nullcontext():
            reports = runtestprotocol(item, log=False, nextitem=following)
        if any(report.failed for report in reports):
            return item.nodeid
    return ""


def serve(root: Path, package: str, tests: str, todo: Sequence[Mutant], results: Results, jobs: int) -> None:
    """Try mutants of a package under ``root``, which is the working directory; results are written as they come."""
    server = Server(root, package, tests, todo, results, jobs)
    if (code := pytest.main([*PYTEST, tests], plugins=[server])) != pytest.ExitCode.OK:
        raise SystemExit(f"pytest ended with exit code {int(code)} before every mutant was tried")
