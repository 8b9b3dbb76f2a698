"""Probe one kernel in a process of its own: a crash or a hang costs one cell, and the interpreter stays out of ours.

The parent sends one JSON object on stdin; the child (``python -m replaycheck.probes.isolated``) prints a line a cell. A
child that dies is started again for the properties after the one that it died in; so is one whose device is lost, as after
an illegal memory access every later call of that process fails, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from replaycheck.children import answering, ask

from .answer import Answer
from .properties import NAMES, crashed
from .recording import load_recording
from .subject import Sizes, Subject
from .timed import Timed, timed

READY = "ready"
"""The child's first line: the kernel is loaded."""
TIME_LIMITS = {"cpu": 900.0, "cuda": 240.0}
"""Seconds for a kernel. Triton's interpreter took 15 to 160 for a row (K = V = 32); six times that is a hang. On an H200 one
shape took 11 to 34 with two configurations, nearly all of it compilation, and a row has up to six shapes."""
DEVICE_LOST = 75
"""Exit code of a child whose device answers every call with the same error; its last cell says which."""


@dataclass(frozen=True)
class Isolated:
    """A subject, and how the child finds it again.

    Attributes:
        autotune: most configurations that Triton times on a GPU; None leaves Triton alone.
        recording: file of the recorded activations, if there are any.
        limit: seconds for all properties together, as somebody wanted it: what isn't done then can't be said. With None
            the device's limit holds, and a kernel that takes longer hangs, which is broken.
    """

    spec: str
    path: Path | None
    subject: Subject
    autotune: int | None = None
    recording: Path | None = None
    limit: float | None = None

    @property
    def seconds(self) -> float:
        return TIME_LIMITS[self.subject.device] if self.limit is None else self.limit

    def task(self, names: Sequence[str]) -> str:
        subject = self.subject
        return json.dumps(
            {
                "spec": self.spec,
                "path": None if self.path is None else str(self.path),
                "kernel": subject.found.name,
                "kind": subject.found.kind.value,
                "device": subject.device,
                "interpret": self.interpreted,
                "autotune": self.autotune if subject.device == "cuda" else None,
                "asked": subject.asked,
                "seed": subject.seed,
                "sizes": asdict(subject.sizes),
                "learnt": [[tensor.tolist() for tensor in pair] for pair in subject.learnt],
                "recording": None if self.recording is None else str(self.recording),
                "names": list(names),
            }
        )

    @property
    def interpreted(self) -> bool:
        return self.subject.device == "cpu" and not self.subject.found.runs_on("cpu")


def isolated_cells(isolated: Isolated) -> Iterator[Timed]:
    """A cell for every property, in order."""
    left, end = list(NAMES), monotonic() + isolated.seconds
    if isolated.seconds <= 0:
        yield from (Timed(Answer("can't", "no time was left").cell(name)) for name in left)
        return
    while left:
        ended = _child(isolated, left, end)
        yield from ended.cells
        left = left[len(ended.cells) :]
        if left and not ended.device_lost and not (ended.hung and isolated.limit is not None):
            yield Timed(crashed(left.pop(0), ended.reason))
        if not ended.try_again:
            yield from (Timed(Answer("can't", f"not probed after that: {ended.reason}").cell(name)) for name in left)
            return


@dataclass(frozen=True)
class _Ended:
    """What a child printed, why it ended, and whether it had begun, took too long, or lost its device."""

    cells: list[Timed]
    reason: str
    begun: bool
    hung: bool
    device_lost: bool

    @property
    def try_again(self) -> bool:
        """Another may get further."""
        return self.begun and not self.hung


def _child(isolated: Isolated, names: Sequence[str], end: float) -> _Ended:
    left = max(0.0, end - monotonic())
    ended = ask(__name__, isolated.task(names), left, isolated.seconds, **_variables(isolated))
    ready, *lines = ended.lines or ("",)
    cells = [Timed.read(line) for line in lines if line.endswith("}")]  # a killed child may leave half a line
    return _Ended(cells, ended.reason, ready == READY, ended.hung, ended.code == DEVICE_LOST and bool(cells))


def _variables(isolated: Isolated) -> dict[str, str]:
    variables = {"CUDA_VISIBLE_DEVICES": ""} if isolated.subject.device == "cpu" else {}
    # Triton reads it when kernels are defined.
    return variables | ({"TRITON_INTERPRET": "1"} if isolated.interpreted else {})


def main() -> int:
    """The child: a line a cell; whatever a kernel prints goes to stderr."""
    task = json.load(sys.stdin)
    with answering() as out:
        subject, chosen = _subject(task)
        print(READY, file=out, flush=True)
        for name in task["names"]:
            chosen.clear()
            found = timed(name, subject, warm=task["device"] == "cuda")
            lost = device_error(task["device"])
            if lost and found.cell.verdict != "broken":
                found = replace(found, cell=crashed(name, lost))
            tuned = {kernel: sorted(configurations) for kernel, configurations in sorted(chosen.items())}
            print(replace(found, tuned=tuned).line(), file=out, flush=True)
            if lost:
                return DEVICE_LOST
    return 0


def device_error(device: str) -> str | None:
    """What the device says if it can't be used any more; kernels run asynchronously, so an error may come late."""
    import torch

    if device != "cuda":
        return None
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1).cpu()
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None


def _subject(task: dict[str, Any]) -> tuple[Subject, dict[str, set[str]]]:
    """The subject, and the record of configurations that fills while its kernels run."""
    import torch

    from replaycheck_kernels.providers import load_provider
    from replaycheck_kernels.providers.interpreter import repair_triton
    from replaycheck_kernels.providers.tuning import bound_autotuning

    torch.set_num_threads(1)
    if task["interpret"]:
        repair_triton()
    chosen = {} if task["autotune"] is None else bound_autotuning(task["autotune"])
    provider = load_provider(task["spec"], task["path"] and Path(task["path"]))
    matching = (each for each in provider.kernels if (each.name, each.kind) == (task["kernel"], task["kind"]))
    subject = Subject(
        provider,
        next(matching),
        task["device"],
        task["asked"],
        Sizes(**{name: _tupled(value) for name, value in task["sizes"].items()}),
        task["seed"],
        tuple((torch.tensor(A_log), torch.tensor(dt_bias)) for A_log, dt_bias in task["learnt"]),
        task["recording"] and load_recording(Path(task["recording"])),
    )
    return subject, chosen


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    os._exit(main())  # with a lost device, the usual clean-up of a process may abort it
