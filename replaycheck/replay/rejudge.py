"""A saved run under gate files: what ``gate RUN`` reports. Nothing is replayed, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replaycheck.assets import gate_files
from replaycheck.errors import UsageError, choices
from replaycheck.gates.admission import check_admission
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge, summary
from replaycheck.gates.load import load_gates
from replaycheck.schema.result import GateResult, Result, Summary

from .assemble import conv_counts
from .parts import RunTables
from .store import open_run, read_result

__all__ = ["Judged", "rejudge"]


@dataclass(frozen=True)
class Judged:
    """``files``: where the gate files lie, by the name that results call them."""

    gates: tuple[GateResult, ...]
    summary: Summary
    warnings: tuple[str, ...]
    files: Mapping[str, Path]


def rejudge(path: Path, names: Sequence[str] = ()) -> Judged:
    """The verdicts of the gate files ``names`` on the run in ``path``; of those that judged it, if none is named."""
    run = open_run(path)
    result = read_result(run)
    files = [load_gates(name) for name in names or _judged_by(result)]
    warnings = tuple(warning for loaded in files for warning in check_admission(loaded))
    evidence = Evidence.of(result, conv_counts(run), RunTables(run))
    gates = judge(files, evidence)
    return Judged(gates, summary(gates, evidence), warnings, {loaded.name: loaded.path for loaded in files})


def _judged_by(result: Result) -> list[str]:
    """The gate files of the run, by name; a result names a user's file but doesn't say where it is."""
    names = list(dict.fromkeys(gate.file for gate in result.gates))
    unknown = [name for name in names if name not in gate_files()]
    if unknown or not names:
        judged = f"was judged by {unknown[0]!r}, which doesn't ship" if unknown else "was judged by no gate"
        raise UsageError(f"the run {judged}; give --gates FILE, or one of those that ship: {choices(gate_files())}")
    return names
