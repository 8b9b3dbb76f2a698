"""``bench scale``: what a run costs beside its subject, and what it holds in memory, at growing numbers of observations.

Each measurement is a whole run in a process of its own, by the command line, so that memory is that of a user's run. CPU
seconds are those that the run itself books by stage; the start (imports, checks, probes) doesn't grow and isn't counted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from replaycheck.assets import suite_file
from replaycheck.children import environment
from replaycheck.errors import EngineEnvironmentError, ExitCode
from replaycheck.replay.store import Run, read_environment, read_result
from replaycheck.say import Say
from replaycheck.schema.bench import Figure, Target

from .figures import figure
from .sessions import Shape, write_sessions

__all__ = ["Measured", "figures_of", "measure", "sessions_for", "targets_of"]

SHAPE = Shape(turns=3, prompt=40, answer=12)
"""As the sessions of the quick preset, which average 17 scored positions a request at 60 new tokens."""

MANY = Shape(turns=2, prompt=40, answer=3)
"""For memory at many traces: as little as a session can be that restores a state."""

OUTSIDE = 0.15
"""Wanted with the lab: of the CPU seconds that grow with the traces, at most so many outside the subject."""

FLAT = 1.1
"""Wanted: memory at most so many times that at a tenth of the traces. An index of 44 bytes a trace may be seen."""

ONE_MATRIX = """
[[matrix]]
history = ["chunk"]
tail = ["chunk"]
answers = ["decoded"]
pool = ["bf16"]
policy = { every = 64, turn_end = true }
"""


@dataclass(frozen=True)
class Measured:
    """One run. peak: bytes of its largest process. stages: CPU seconds."""

    subject: str
    sessions: int
    observations: int
    wall: float
    peak: int
    stages: dict[str, float]

    @property
    def outside(self) -> float:
        """Share of the CPU seconds that aren't the subject's."""
        return 1 - self.stages["subject"] / sum(self.stages.values())

    @property
    def name(self) -> str:
        return f"{self.subject}, {self.observations:,} observations, {self.sessions:,} sessions"


def sessions_for(observations: int, arms: int) -> int:
    """Sessions of :data:`SHAPE` that give about so many observations."""
    return max(1, round(observations / (SHAPE.scored * arms)))


def measure(subject: str, sessions: int, many: bool, workers: int, say: Say) -> Measured:
    """Run sessions under the quick preset's matrix; with ``many``, tiny sessions under a matrix of five arms.

    Raises:
        EngineEnvironmentError: the run failed.
    """
    with TemporaryDirectory(prefix="replaycheck-scale-") as scratch:
        folder = Path(scratch)
        write_sessions(folder / "sessions.jsonl", sessions, MANY if many else SHAPE)
        text = re.sub(r"(?m)^traces = .*$", 'traces = ["sessions.jsonl"]', suite_file("quick").read_text())
        (folder / "suite.toml").write_text(text.partition("[[matrix]]")[0] + ONE_MATRIX if many else text)
        say(f"{subject}: {sessions:,} sessions")
        begin = monotonic()
        code, peak, said = _run(folder, subject, workers)
        wall = monotonic() - begin
        # The null subject has no probes, so gates that read them say that they saw nothing.
        if code not in (ExitCode.PASS, ExitCode.VACUOUS):
            raise EngineEnvironmentError(f"the run of {sessions:,} sessions ended with exit code {code}: {said}")
        run = Run(folder / "run")
        observations = sum(arm.positions for arm in read_result(run).arms)
        return Measured(subject, sessions, observations, wall, peak, dict(read_environment(run).cpu_seconds))


def _run(folder: Path, subject: str, workers: int) -> tuple[int, int, str]:
    """Exit code, bytes of the largest process, last line of stderr."""
    command = [sys.executable, "-m", "replaycheck.cli.main", "run", str(folder / "suite.toml")]
    command += ["--subject", subject, "--out", str(folder / "run"), "--workers", str(workers)]
    with (folder / "err").open("w+b") as err:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, env=environment())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        last = err.read().decode(errors="replace").strip().splitlines()[-1:]
    # ru_maxrss is in KiB, on macOS in bytes.
    return child.returncode, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), "".join(last)


def figures_of(measured: Measured) -> list[Figure]:
    """The numbers of one run."""
    counted = sum(measured.stages.values())
    values = [
        ("observations", "1/s", measured.observations / measured.wall),
        ("observations", "1/CPU s", measured.observations / counted),
        ("outside the subject", "%", 100 * measured.outside),
        ("outside the subject", "µs CPU an observation", 1e6 * counted * measured.outside / measured.observations),
        ("peak memory", "MiB", measured.peak / 2**20),
        ("time", "s", measured.wall),
    ]
    return [figure(measured.name, quantity, unit, [value]) for quantity, unit, value in values]


def targets_of(found: Sequence[Measured], many: Sequence[Measured]) -> list[Target]:
    """Time outside the lab, and memory at ten times the sessions."""
    targets = [
        Target(name=f"{each.name}: outside", unit="%", wanted=100 * OUTSIDE, at_least=False, found=100 * each.outside)
        for each in found
        if each.subject == "lab"
    ]
    return targets + [
        Target(
            name=f"memory at {b.sessions:,} sessions over {a.sessions:,}",
            unit="times",
            wanted=FLAT,
            at_least=False,
            found=b.peak / a.peak,
        )
        for a, b in pairwise(many)
    ]
