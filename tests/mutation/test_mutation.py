"""The driver of mutation testing: what it changes, that it kills what a test notices, and that arguments aren't stale."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mutation import serve
from tests.mutation.argued import Argued, key
from tests.mutation.changes import Mutant, mutants, mutated
from tests.mutation.child import fork
from tests.mutation.results import Results

ROOT = Path(__file__).resolve().parents[2]
MODULE = """LIMIT = 3


def clipped(x, low=0):
    if x < low or not x:
        return low
    return min(x * 2, LIMIT)


def unused(x):
    return x + 1
"""
TESTS = """import pytest
from package.clip import clipped


@pytest.mark.parametrize(("x", "expected"), [(-1, 0), (0, 0), (1, 2), (2, 3)])
def test_clipped(x, expected):
    assert clipped(x) == expected
"""


CONFIG = '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"package/clip.py": MODULE, "tests/clip/test_clip.py": TESTS, "pyproject.toml": CONFIG}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_operator_and_number_is_changed_once(project: Path) -> None:
    found = mutants(project, "package/clip.py")
    assert {(each.within, each.before, each.after) for each in found} == {
        ("", "LIMIT = 3", "LIMIT = 4"),
        ("", "x, low=0", "x, low=1"),
        ("clipped", "x < low or not x", "x < low and (not x)"),
        ("clipped", "x < low", "x <= low"),
        ("clipped", "not x", "not not x"),
        ("clipped", "x * 2", "x / 2"),
        ("clipped", "x * 2", "x * 3"),
        ("unused", "x + 1", "x - 1"),
        ("unused", "x + 1", "x + 2"),
    }
    sources = {ast.unparse(mutated(MODULE, each.place)) for each in found}
    assert len(sources | {ast.unparse(ast.parse(MODULE))}) == len(found) + 1


def test_what_tests_notice_is_killed_and_the_rest_lives_or_is_not_covered(project: Path) -> None:
    """In a process of its own, as it forks: mutants in functions, of a constant at import, and of a function nobody runs."""
    code = (
        "import sys; from pathlib import Path; from tests.mutation import serve, swap; "
        "from tests.mutation.changes import mutants; from tests.mutation.results import Results; "
        "swap.OURS = ('package', 'tests'); root = Path(sys.argv[1]); "
        "results = Results(root / 'r.jsonl', root, 'tests/clip'); "
        "serve.serve(root, 'package', 'tests/clip', mutants(root, 'package/clip.py'), results, 2)"
    )
    path = {"PYTHONPATH": f"{project}:{ROOT}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", code, str(project)]
    done = subprocess.run(command, cwd=project, env=path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = Results(project / "r.jsonl", project, "tests/clip")
    outcomes = {key(each)[2]: results.of(each) for each in mutants(project, "package/clip.py")}
    assert {change: found and found.outcome for change, found in outcomes.items()} == {
        "LIMIT = 3 → LIMIT = 4": "killed",
        "x, low=0 → x, low=1": "killed",
        "x < low or not x → x < low and (not x)": "killed",
        "x < low → x <= low": "lives",  # 0 is the limit and doubled 0
        "not x → not not x": "killed",
        "x * 2 → x / 2": "killed",
        "x * 2 → x * 3": "killed",
        "x + 1 → x - 1": "not covered",
        "x + 1 → x + 2": "not covered",
    }


def test_a_loop_without_an_end_is_given_the_time_of_its_test_and_not_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "AT_LEAST", 0.05)

    def work(folder: Path) -> bool:
        serve.limit(0.01)
        while True:
            pass

    child = fork(work, seconds=60)
    while (code := child.poll()) is None:
        time.sleep(0.01)
    assert (code, child.note()) == (-signal.SIGPROF, "")


def test_a_result_holds_until_the_module_changes_and_a_survivors_until_the_tests_do(project: Path) -> None:
    path = project / "r.jsonl"
    one, two = mutants(project, "package/clip.py")[:2]

    def known() -> list[bool]:
        results = Results(path, project, "tests/clip")
        return [results.of(one) is not None, results.of(two) is not None]

    results = Results(path, project, "tests/clip")
    results.add(one, "killed", "a test", 0.1)
    results.add(two, "lives", "", 0.1)
    assert known() == [True, True]
    (project / "tests/clip/test_clip.py").write_text(TESTS + "\n")
    assert known() == [True, False]
    (project / "package/clip.py").write_text(MODULE + "\n")
    assert known() == [False, False]


def test_each_argument_names_source_that_exists_and_says_why() -> None:
    argued = Argued.load(ROOT)
    assert argued.stale(ROOT) == []
    assert all(len(why.split()) > 4 for why in argued.whys.values())


def test_an_argument_for_what_is_not_there_is_stale() -> None:
    gone = ("replaycheck/stats/signs.py", "sign_test", "a + b → a * b")
    assert Argued({gone: "why"}).stale(ROOT) == [" ".join(gone)]
    unknown = Mutant("replaycheck/stats/signs.py", 0, "sign_test", 1, (1, 1), "a + b", "a * b")
    assert unknown in Argued({gone: "why"})
