"""One place turns errors into exit codes; what a script relies on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest

from replaycheck import __version__
from replaycheck.cli import main
from replaycheck.cli.lazy import Verb
from replaycheck.errors import EngineEnvironmentError, ExitCode, InternalError, UsageError

ROOT = Path(__file__).parent.parent.parent
Plant = Callable[[Callable[[], object]], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Give the command line a verb ``planted`` that does what the test wants."""

    def verb(body: Callable[[], object]) -> None:
        module = ModuleType("planted_verb")
        module.command = click.Command("planted", callback=body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "planted_verb", module)
        monkeypatch.setitem(main.cli.verbs, "planted", Verb("planted_verb", "Planted by a test."))

    return verb


def raising(error: BaseException) -> Callable[[], object]:
    def body() -> object:
        raise error

    return body


@pytest.mark.parametrize("code", [None, *(ExitCode(code) for code in (0, 1, 2, 4, 5, 6))])
def test_what_a_verb_returns_is_the_exit_code(code: ExitCode | None, plant: Plant, replaycheck: Callable) -> None:
    plant(lambda: code)
    assert replaycheck("planted").code == (code or 0)


ERRORS = [
    (UsageError("no such thing"), 2),
    (EngineEnvironmentError("no GPU"), 4),
    (click.UsageError("bad option"), 2),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_errors_have_their_codes_and_leave_stdout_alone(
    error: BaseException, code: int, plant: Plant, replaycheck: Callable
) -> None:
    plant(raising(error))
    outcome = replaycheck("planted")
    assert (outcome.code, outcome.out) == (code, "")
    assert "Traceback" not in outcome.err


def test_an_error_is_one_line_without_control_characters(plant: Plant, replaycheck: Callable) -> None:
    plant(raising(UsageError("file 'a\x1b[2J\nb' is no trace file; give one")))
    assert replaycheck("planted").err == r"replaycheck: error: file 'a\x1b[2J\nb' is no trace file; give one" + "\n"


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), InternalError("oops")])
def test_anything_else_is_our_bug_and_its_traceback_is_kept(
    error: Exception, plant: Plant, replaycheck: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plant(raising(error))
    outcome = replaycheck("planted")
    (saved,) = tmp_path.iterdir()
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert f"internal error, a bug of replaycheck's: {type(error).__name__}: oops" in outcome.err
    assert str(saved) in outcome.err
    assert "Traceback" in saved.read_text()


def test_a_traceback_can_be_asked_for(plant: Plant, replaycheck: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYCHECK_TRACEBACK", "1")
    plant(raising(ZeroDivisionError("oops")))
    assert "Traceback (most recent call last)" in replaycheck("planted").err


def test_an_unknown_verb_names_the_verbs(replaycheck: Callable) -> None:
    outcome = replaycheck("rum")
    assert outcome.code == 2
    assert "'rum' is no verb (did you mean 'run'?); allowed are 'run', 'compare'" in outcome.err


def test_version_and_help(replaycheck: Callable) -> None:
    assert replaycheck("--version").out == f"replaycheck, version {__version__}\n"
    assert replaycheck("--help").code == replaycheck("-h").code == 0


def test_help_says_what_every_exit_code_means(replaycheck: Callable) -> None:
    shown = replaycheck("--help").out
    assert all(f"\n    {code:<5}{main.EXIT_CODES[code]}\n" in shown for code in ExitCode)
    assert max(map(len, shown.splitlines())) <= 80


def complete(words: str) -> str:
    """What a shell is told after these words; importing torch would take seconds at each press of the key."""
    program = (
        "import sys\n"
        "from replaycheck.cli import main\n"
        "try:\n"
        "    main.main()\n"
        "finally:\n"
        "    assert not {'torch', 'pandas', 'pydantic'} & set(sys.modules), 'a slow import'\n"
    )
    number = str(len(words.split(" ")) - 1)
    asked = {"_REPLAYCHECK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": number}
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}"} | asked
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("replaycheck ", list(main.VERBS)),
        ("replaycheck se", ["selftest"]),
        ("replaycheck bench sc", ["scale"]),
        ("replaycheck run --pres", ["--preset"]),
    ],
)
def test_a_shell_completes_verbs_and_options(words: str, offered: list[str]) -> None:
    assert [line.partition(",")[2] for line in complete(words).splitlines()] == offered


def test_help_lists_every_verb_without_importing_it(replaycheck: Callable, plant: Plant) -> None:
    outcome = replaycheck("--help")
    assert all(f"  {name} " in outcome.out for name in main.VERBS)


@pytest.mark.parametrize("name", main.VERBS)
def test_every_verb_has_help_with_an_example(name: str, replaycheck: Callable) -> None:
    outcome = replaycheck(name, "--help")
    assert outcome.code == 0
    assert "Example" in outcome.out
    assert f"replaycheck {name}" in outcome.out


def test_a_closed_pipe_is_quiet_and_no_verdict() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}"}
    done = subprocess.run(
        [sys.executable, "-m", "replaycheck.cli.main", "schema"],
        stdout=writer, stderr=subprocess.PIPE, env=environment, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (main.BROKEN_PIPE, "")


def test_a_terminal_without_unicode_shows_escapes() -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}", "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "replaycheck.cli.main", "trace", "show", "ł"],
        capture_output=True, env=environment, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert r"\u0142" in done.stderr
