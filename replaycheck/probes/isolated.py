"""Probe one kernel in a process of its own: a crash or a hang costs one cell, and the interpreter stays out of ours.

The parent sends one JSON object on stdin; the child (``python -m replaycheck.probes.isolated``) prints a cell a line. A
child that dies is started again for the properties after the one that it died in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from replaycheck.schema.probe_table import ProbeCell

from .answer import Answer
from .properties import NAMES, crashed, probe
from .subject import Sizes, Subject

READY = "ready"
"""The child's first line: the kernel is loaded."""
TIME_LIMIT = 900
"""Seconds for a kernel. Triton's interpreter took 15 to 160 for a row (K = V = 32); six times that is a hang."""


@dataclass(frozen=True)
class Isolated:
    """A subject, and how the child finds it again."""

    spec: str
    path: Path | None
    subject: Subject

    def task(self, names: Sequence[str]) -> str:
        subject = self.subject
        return json.dumps(
            {
                "spec": self.spec,
                "path": None if self.path is None else str(self.path),
                "kernel": subject.found.name,
                "kind": subject.found.kind.value,
                "interpret": not subject.found.runs_on("cpu"),
                "asked": subject.asked,
                "seed": subject.seed,
                "sizes": asdict(subject.sizes),
                "learnt": [[tensor.tolist() for tensor in pair] for pair in subject.learnt],
                "names": list(names),
            }
        )


def isolated_cells(isolated: Isolated) -> Iterator[ProbeCell]:
    """A cell for every property, in order."""
    left = list(NAMES)
    while left:
        ended = _child(isolated, left)
        yield from ended.cells
        left = left[len(ended.cells) :]
        if left:
            yield crashed(left.pop(0), ended.reason)
        if not ended.try_again:
            yield from (Answer("can't", f"not probed after that: {ended.reason}").cell(name) for name in left)
            return


@dataclass(frozen=True)
class _Ended:
    """What a child printed, why it ended, and whether another may get further: it had begun, and it didn't hang."""

    cells: list[ProbeCell]
    reason: str
    try_again: bool


def _child(isolated: Isolated, names: Sequence[str]) -> _Ended:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CUDA_VISIBLE_DEVICES": ""}
    if not isolated.subject.found.runs_on("cpu"):
        environment["TRITON_INTERPRET"] = "1"  # Triton reads it when kernels are defined
    command = [sys.executable, "-W", "ignore", "-m", "replaycheck.probes.isolated"]
    pipe = subprocess.PIPE
    hung = False
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as child:
        try:
            out, err = child.communicate(isolated.task(names), timeout=TIME_LIMIT)
            reason = (err.strip().splitlines() or [f"the process ended with code {child.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            child.kill()
            out, _ = child.communicate()
            reason, hung = f"no answer within {TIME_LIMIT} s", True
    ready, *lines = out.splitlines() or [""]
    return _Ended([ProbeCell.model_validate_json(line) for line in lines], reason, ready == READY and not hung)


def main() -> int:
    """The child: cells go to the first stdout; whatever a kernel prints goes to stderr."""
    task = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        subject = _subject(task)
        print(READY, file=out, flush=True)
        for name in task["names"]:
            print(probe(name, subject).model_dump_json(), file=out, flush=True)
    return 0


def _subject(task: dict[str, Any]) -> Subject:
    import torch

    from replaycheck_kernels.providers import load_provider
    from replaycheck_kernels.providers.interpreter import repair_triton

    torch.set_num_threads(1)
    if task["interpret"]:
        repair_triton()
    provider = load_provider(task["spec"], task["path"] and Path(task["path"]))
    matching = (each for each in provider.kernels if (each.name, each.kind) == (task["kernel"], task["kind"]))
    learnt = tuple((torch.tensor(A_log), torch.tensor(dt_bias)) for A_log, dt_bias in task["learnt"])
    subject = Subject(provider, next(matching), asked=task["asked"], seed=task["seed"], learnt=learnt)
    return replace(subject, sizes=Sizes(**{name: _tupled(value) for name, value in task["sizes"].items()}))


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
