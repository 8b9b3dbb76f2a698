"""One side in a process of its own: its memory is its own, and transformers may see another set of packages.

A JSON object on stdin says what to build; then each line is a job, and each answer one line on stdout. An answer is
``{"ready": facts}``, ``{"error": text, "exit_code": n}`` or what was measured.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from replaycheck.children import answering
from replaycheck.errors import InternalError, ReplayCheckError

from .sides import Job, Setup, Side, peak_bytes
from .workload import Sizes


def main() -> int:
    """The child. Whatever libraries print goes to stderr."""
    with answering() as out:
        try:
            setup = _setup(json.loads(sys.stdin.readline()))
            side = build(setup)
            _say(out, {"ready": side.facts()})
            for line in sys.stdin:
                given = json.loads(line)
                job = Job(Sizes(**given["sizes"]), given["together"], given["apart"])
                _say(out, asdict(side.run(job)) | {"peak": peak_bytes(setup.device)})
        except ReplayCheckError as error:
            _say(out, {"error": str(error), "exit_code": int(error.exit_code)})
            return int(error.exit_code)
    return 0


def build(setup: Setup) -> Side:
    """Threads and autotuning first: both hold for the whole process."""
    import torch

    from replaycheck.replay.worker import keep_memory
    from replaycheck_kernels.providers.tuning import bound_autotuning

    keep_memory()  # on both sides, as a run's workers do
    torch.set_num_threads(setup.threads)
    if setup.device == "cuda":
        bound_autotuning(setup.autotune)
    if setup.side == "lab":
        from .lab_side import LabSide

        return LabSide(setup)
    if setup.side == "transformers":
        from .transformers_side import TransformersSide

        return TransformersSide(setup)
    raise InternalError(f"no side {setup.side!r}")


def _setup(given: dict[str, Any]) -> Setup:
    given |= {"model": Path(given["model"]), "text": tuple(given["text"])}
    given["kernels_path"] = given["kernels_path"] and Path(given["kernels_path"])
    return Setup(**given)


def _say(out: Any, answer: object) -> None:
    print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    sys.exit(main())
