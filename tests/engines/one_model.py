"""One model on vLLM's CPU build, in this process: a clean run, then runs in which stored states are wiped.

    python tests/engines/one_model.py NAME FOLDER     writes FOLDER/row.json

It runs in an environment of its own (vLLM pins its own torch), so it is a script and no test of pytest's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]

from tests.engines.patches import SETTINGS, apply  # noqa: E402  (the folder isn't installed)

__all__ = ["CASES", "FAULTS", "Case"]

GROUPS, SESSIONS = 2, 2
"""Four traces, which is what the gates need, two of them in flight at once."""


@dataclass(frozen=True)
class Case:
    """dtype: of the model. prompt: characters, thus tokens, of a user's turn; a cache block has 128 or 640 tokens."""

    dtype: str
    prompt: int


CASES = {
    "granitemoehybrid": Case("float32", 150),
    "falcon_h1": Case("float32", 150),
    "mamba2": Case("float32", 150),
    # In fp32 it stops: "CPU GDN attention requires BF16".
    "qwen3_next": Case("bfloat16", 350),
}

FAULTS: dict[str, Callable[[Sequence[Any]], bool]] = {
    "wiped": lambda asks: not any(ask.cold for ask in asks),
    "wiped beside others": lambda asks: len(asks) > 1 and not any(ask.cold for ask in asks),
}
"""Which requests find every stored state at zero."""


def main(name: str, folder: Path) -> None:
    os.environ.update(SETTINGS)
    apply()
    from tests.engines.wipe import wiping

    engines = _remembered()
    words = _prepare(name, folder)
    rows = {"clean": _run(words, folder / "clean")}
    for fault, when in FAULTS.items():
        end = wiping(engines[0], when)
        rows[fault] = _run(words, folder / fault.replace(" ", "-"))
        end()
    (folder / "row.json").write_text(json.dumps(rows | {"seconds": process_time()}))


def _remembered() -> list[Any]:
    """The engines that are started from here on; runs with the same options share one."""
    from replaycheck.subjects.server import offline

    start, engines = offline.start, list[Any]()

    def remembering(*args: Any) -> Any:
        engines.append(start(*args))
        return engines[-1]

    offline.start = remembering
    return engines


def _prepare(name: str, folder: Path) -> list[str]:
    """Write the model and its traces; the command line that runs them."""
    from replaycheck.bench.sessions import Shape
    from tests.engines.models import WRITERS
    from tests.engines.sessions import write_groups

    case = CASES[name]
    WRITERS[name](folder / "model")
    write_groups(folder / "sessions.jsonl", GROUPS, SESSIONS, Shape(turns=4, prompt=case.prompt, answer=5))
    words = ["run", "--subject", "vllm-offline", "--model", str(folder / "model")]
    words += ["--traces", str(folder / "sessions.jsonl")]
    for setting in (f"dtype={case.dtype}", "score=3", "length=2048", "budget=128", "batch=3"):
        words += ["--subject-option", setting]
    return words


def _run(words: Sequence[str], out: Path) -> dict[str, Any]:
    """The exit code, and the result if there is one."""
    from replaycheck.cli.main import invoke

    code = invoke([*words, "--out", str(out)])
    result = out / "result.json"
    return {"code": code, "result": json.loads(result.read_text()) if result.exists() else None}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
