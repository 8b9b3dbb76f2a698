"""What a search leaves behind: the trace, a suite with the one cell, the reduced model, and one command that fails."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.errors import ExitCode
from replaycheck.files import write_atomically
from replaycheck.schema.arm import Arm
from replaycheck.traces.write import write_groups

from ..again import Case

__all__ = ["Reproduction", "reproduces", "write_reproduction"]

TRACE, SUITE = "small.jsonl", "small.toml"
_SECONDS = 600
"""For a command that takes some seconds: more is a machine that stands still."""


@dataclass(frozen=True)
class Reproduction:
    """Files and the command line, as words."""

    trace: Path
    suite: Path
    command: tuple[str, ...]

    @property
    def line(self) -> str:
        """To be pasted."""
        return shlex.join(self.command)


def write_reproduction(case: Case, folder: Path, shipped_model: bool) -> Reproduction:
    """Write trace and suite into ``folder``.

    Args:
        shipped_model: the model is the one that ships, so the command needn't name it.
    """
    trace, suite = folder / TRACE, folder / SUITE
    write_groups(trace, [case.group])
    write_atomically(suite, _suite(case.candidate, case.work.recipe).encode())
    words = ["replaycheck", "run", str(suite)]
    if not shipped_model:
        words += ["--model", str(case.work.model)]
    kernels = case.work.kernels
    if kernels.spec != "ours":
        words += ["--kernels", kernels.spec, *(["--kernels-path", str(kernels.path)] if kernels.path else [])]
    if kernels.device != "cpu":
        words += ["--device", kernels.device]
    for fault in case.work.faults:
        words += ["--fault", fault]
    return Reproduction(trace, suite, tuple(words))


def _suite(arm: Arm, recipe: str) -> str:
    """A suite file with the one exact cell of a warm arm."""
    policy = arm.policy.model_dump(exclude_none=True, exclude_defaults=True)
    policy = {"cache": arm.policy.cache} | policy if arm.policy.cache != "reference" else policy
    lines = [
        "# One cell that fails, made small by `replaycheck bisect`.",
        'schema = "replaycheck.suite/1"',
        'name = "small"',
        f'traces = ["{TRACE}"]',
        'gates = ["exact"]',
        f'recipe = "{recipe}"',
        "",
        "[[matrix]]",
        f'history = ["{arm.history}"]',
        f'tail = ["{arm.tail}"]',
        f'answers = ["{arm.answers}"]',
        f'pool = ["{arm.pool}"]',
        f"policy = {{ {', '.join(f'{name} = {_toml(value)}' for name, value in policy.items())} }}",
        'effects = ["exact"]',
    ]
    if arm.rollback:
        lines.append(f'rollback = ["{arm.rollback}"]')
    if arm.ring:
        lines.append(f"ring = {arm.ring}")
    if arm.tensor_parallel > 1:
        lines.append(f"tensor_parallel = [{arm.tensor_parallel}]")
    if arm.activation != "inside":
        lines.append(f'activation = "{arm.activation}"')
    if arm.padding:
        p = arm.padding
        lines.append(f'padding = [{{ side = "{p.side}", columns = {p.columns}, rows = {p.rows} }}]')
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def reproduces(found: Reproduction) -> bool:
    """Run the command in a process of its own; whether a gate fails, or the lab refuses to go on."""
    with TemporaryDirectory(prefix="replaycheck-bisect-") as scratch:
        words = [sys.executable, "-m", "replaycheck.cli.main", *found.command[1:], "--out", f"{scratch}/run"]
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    return done.returncode in (ExitCode.FAIL, ExitCode.INTERNAL)
