"""vLLM's CPU build with four tiny models: real cold, split and warm runs with hits. ``make test-engines`` runs it.

    python tests/engines/vllm_cpu.py [MODEL...]

Each model has a process of its own, so that one that crashes takes no other along. Exit code 0 if all ran and showed what
they must: a clean run that passes with every expected hit, split and warm alike, and wiped states that fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "kernels")]

from tests.engines.one_model import CASES  # noqa: E402  (the folder isn't installed)
from tests.engines.rows import HEAD, Row  # noqa: E402

__all__: list[str] = []

LIMIT = 900
"""Seconds a model; each took 60 to 120 on two cores."""


def main(names: list[str]) -> int:
    rows = []
    for name in names or list(CASES):
        print(f"{name}: running", flush=True)
        with TemporaryDirectory() as scratch:
            rows.append(_row(name, Path(scratch)))
    print(_table([HEAD, *(row.words() for row in rows)]))
    for row in rows:
        print(*(f"{row.model}: {wrong}" for wrong in row.wrong), sep="\n", end="\n" if row.wrong else "")
    return int(any(row.wrong for row in rows))


def _row(name: str, folder: Path) -> Row:
    words = [sys.executable, str(HERE / "one_model.py"), name, str(folder)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return Row(name, CASES[name].dtype, {}, LIMIT, f"no end after {LIMIT} s")
    found = folder / "row.json"
    runs = json.loads(found.read_text()) if found.exists() else {}
    seconds = runs.pop("seconds", 0.0)
    if not runs or any(run["result"] is None for run in runs.values()):
        return Row(name, CASES[name].dtype, runs, seconds, _reason(done.stdout + done.stderr))
    return Row(name, CASES[name].dtype, runs, seconds)


def _reason(said: str) -> str:
    """The line that says what went wrong: replaycheck's own, else the last one of an exception."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("replaycheck: error")]
    raised = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (own or raised or lines or ["it said nothing"])[-1][:300]


def _table(lines: list[tuple[str, ...]]) -> str:
    whole = [line for line in lines if len(line) == len(HEAD)]
    widths = [max(len(line[at]) for line in whole) for at in range(len(HEAD))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=False)).rstrip() for line in lines
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
