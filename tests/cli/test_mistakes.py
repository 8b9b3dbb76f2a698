"""What a user mistypes: the exit code is 2, stdout stays empty, the words help, and nothing that existed is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from replaycheck.diagnose.shrink.choose import _refuse_unknown
from replaycheck.errors import UsageError
from replaycheck.faults.shipped import FAULTS
from replaycheck.schema.arm import Effect
from tests.suites import suite_text

ROOT = Path(__file__).resolve().parents[2]

SUITE = suite_text("mine", "suite:quick", ("bf16",))

MISSPELT = [
    (("rnu",), "'rnu' is no verb (did you mean 'run'?)"),
    (("trace", "lst"), "'lst' is no verb (did you mean 'list'?)"),
    (("run", "--presett", "quick"), "'--presett' is no option (did you mean '--preset'?); `replaycheck run --help`"),
    (("trace", "show", "suite:quik"), "(did you mean 'quick'?)"),
    (("run", "--preset", "fulll"), "preset 'fulll' is unknown (did you mean 'full'?); those that ship are 'ci'"),
    (("run", "--subject", "labb"), "unknown subject 'labb' (did you mean 'lab'?)"),
    (("run", "--gates", "exat"), "gate file 'exat' is unknown (did you mean 'exact'?)"),
    (("run", "--recipe", "exakt"), "unknown recipe 'exakt' (did you mean 'exact'?)"),
    (("run", "--fault", "restor-late"), "(did you mean 'restore-late'?); `replaycheck selftest --list` lists all"),
    (("explain", "RC31"), "(did you mean 'RC310', 'RC311', 'RC312' or 'RC313'?); `replaycheck explain` lists all"),
    (("explain", "bf16"), "in a title: RC101, extra rounding through bf16"),
    (("schema", "trac"), "schema 'trac' is unknown (did you mean 'trace'?)"),
    (("sweep", "--pool", "fp23"), "(did you mean 'fp32'?)"),
    (("capacity", "--geometry", "kimi-k4"), "(did you mean 'kimi-k3'?)"),
    (("trace", "synth", "--suite", "chunk_edge"), "(did you mean 'chunk_edges'?)"),
    (("trace", "import", "atuo", "x", "--out", "new.jsonl"), "(did you mean 'auto'?)"),
    (("trace", "show", "suite:quick", "--group", "edges_65"), "(did you mean 'edges_64'?)"),
]


@pytest.mark.parametrize(("words", "said"), MISSPELT, ids=lambda each: each[-1] if isinstance(each, tuple) else "")
def test_a_misspelt_name_gets_the_nearest(
    words: tuple[str, ...], said: str, replaycheck: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = replaycheck(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert len(outcome.err) < 600
    assert list(tmp_path.iterdir()) == []


BROKEN = [
    ("gates = ", "gatess = ", ":4: gatess: is no known key (given ['exact']) (did you mean 'gates'?)"),
    ("pool = ", "pol = ", ":11: matrix[0].pol: is no known key (given ['bf16']) (did you mean 'policy' or 'pool'?)"),
    ('"bf16"', '"bf17"', ":11: matrix[0].pool[0]: 'bf17' isn't allowed; allowed: 'fp32', 'bf16' or 'fp16'"),
    ("every = 64", "evry = 64", ":12: matrix[0].policy.evry: is no known key (given 64) (did you mean 'every'?)"),
    ("name = ", "name ", ":2:6: malformed TOML"),
    ("suite:quick", "suite:quik", "trace suite 'quik' is unknown (did you mean 'quick'?)"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), BROKEN, ids=[wrong for _, wrong, _ in BROKEN])
def test_a_broken_suite_is_named_with_its_line(
    right: str, wrong: str, said: str, replaycheck: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE.replace(right, wrong), encoding="utf-8")
    outcome = replaycheck("run", path, "--dry-run", "--no-calibrate")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


NUMBERS = [
    ("compare", "a", "b", "--no-worse", "--margin"),
    ("trace", "synth", "--like", "suite:quick", "--out", "x", "--scale"),
    ("trace", "import", "auto", "x", "--out", "y", "--scale"),
    ("probe", "kernels", "--total"),
]


@pytest.mark.parametrize("words", NUMBERS, ids=" ".join)
@pytest.mark.parametrize("value", ["nan", "-1", "x"])
def test_a_number_that_is_none_is_refused(words: tuple[str, ...], value: str, replaycheck: Callable) -> None:
    outcome = replaycheck(*words, value)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"Invalid value for '{words[-1]}'" in outcome.err


def test_a_misspelt_key_of_a_gate_file_has_its_line(replaycheck: Callable, tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    shipped = (ROOT / "replaycheck" / "gates" / "exact.toml").read_text(encoding="utf-8")
    line = shipped[: shipped.index("metric = ")].count("\n") + 1
    path.write_text(shipped.replace("metric = ", "metrik = ", 1), encoding="utf-8")
    outcome = replaycheck("run", "--gates", path, "--dry-run", "--no-calibrate")
    assert outcome.code == 2
    assert f"line {line}: gate[0].metrik: is no known key" in outcome.err
    assert "(did you mean 'metric'?)" in outcome.err


def test_a_floor_that_isnt_there_is_told_how_to_get_one(replaycheck: Callable, tmp_path: Path) -> None:
    outcome = replaycheck("run", "--floor", tmp_path / "nosuch.json", "--dry-run", "--no-calibrate")
    assert outcome.code == 2
    assert "give a file that `replaycheck floor --out FILE.json` wrote" in outcome.err


def test_the_lab_is_no_subject_to_check(replaycheck: Callable) -> None:
    outcome = replaycheck("subject", "check", "lab")
    assert outcome.code == 2
    assert "`replaycheck selftest` is its check" in outcome.err


def test_a_cell_that_the_run_hasnt_gets_the_nearest() -> None:
    cell = SimpleNamespace(name="exact/chunk", effect=Effect.EXACT)
    with pytest.raises(
        UsageError, match=r"--cell 'exact/chnk' is no exact cell of the run \(did you mean 'exact/chunk'\?\)"
    ):
        _refuse_unknown(SimpleNamespace(cells=[cell]), "exact/chnk")  # type: ignore[arg-type]


OUTS = [
    ("trace", "export", "suite:quick", "--format", "openai", "--out"),
    ("trace", "import", "auto", "suite.jsonl", "--out"),
    ("trace", "synth", "--like", "suite:quick", "--out"),
    ("floor", "--out"),
    ("model", "export", "--out"),
    ("model", "golden", "--out"),
    ("selftest", "--quick", "--out"),
    ("run", "--out"),
]


@pytest.mark.parametrize("words", OUTS, ids=" ".join)
def test_what_is_there_is_not_written_over(
    words: tuple[str, ...], replaycheck: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.jsonl").write_bytes((ROOT / "traces" / "quick.jsonl").read_bytes())
    thesis = tmp_path / "thesis"
    thesis.write_text("years of work")
    outcome = replaycheck(*words, thesis)
    assert (outcome.code, outcome.out) == (2, "")
    assert "'thesis'" in outcome.err or str(thesis) in outcome.err
    assert thesis.read_text() == "years of work"


@pytest.mark.parametrize("words", OUTS[:4], ids=" ".join)
def test_a_folder_is_no_file(
    words: tuple[str, ...], replaycheck: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.jsonl").write_bytes((ROOT / "traces" / "quick.jsonl").read_bytes())
    (tmp_path / "folder").mkdir()
    outcome = replaycheck(*words, tmp_path / "folder")
    assert (outcome.code, outcome.out) == (2, "")
    assert "is there already" in outcome.err


def test_all_faults_are_listed_in_a_terminals_width(replaycheck: Callable) -> None:
    outcome = replaycheck("selftest", "--list")
    assert outcome.code == 0
    assert all(f"\n  {name}  {fault.code}, " in outcome.out for name, fault in FAULTS.items())


def test_a_second_signal_ends_it_without_a_traceback() -> None:
    program = (
        "import threading, time\n"
        "from replaycheck.cli import main\n"
        "class Slow(threading.Thread):\n"
        "    def run(self): time.sleep(30)\n"
        "def interrupted(args):\n"
        "    Slow().start()\n"
        "    print('ready', flush=True)\n"
        "    return 130\n"
        "main.invoke = interrupted\n"
        "main.main()\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        threading_waits = 0.5
        try:
            process.wait(threading_waits)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")
