"""Admission: plant each gate's fault and see that the gate, and only then, fails.

Plan faults run the main job on a few groups of the quick suite; casts and recipes are judged by the probes. A gate is
admitted if its clean value is within its bound and its fault's value isn't; the record is written next to the gate file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.errors import UsageError
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.gates.admission import admit, write_admission
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge
from replaycheck.gates.load import LoadedGates
from replaycheck.replay.assemble import conv_counts
from replaycheck.replay.environment import describe
from replaycheck.replay.groups import Groups
from replaycheck.replay.run import run, run_probes
from replaycheck.replay.settings import Settings, admission_suite_digest, resolve
from replaycheck.schema.arm import Effect, Kernel
from replaycheck.schema.result import GateResult
from replaycheck.schema.suite import expand

GROUPS = ("regenerate_and_fork", "edges_64")
"""Small groups with every kind of hit: decoded states, states inside an extend and at its end, forks, odd tails."""

Say = Callable[[str], None]
Values = dict[str, GateResult]


@dataclass(frozen=True)
class Caught:
    """One gate with its fault."""

    file: str
    gate: str
    fault: str
    bound: float
    clean: float | None
    faulty: float | None
    also: tuple[str, ...]

    @property
    def caught(self) -> bool:
        clean = self.clean is not None and self.clean <= self.bound
        return clean and self.faulty is not None and self.faulty > self.bound


def admission(gates: tuple[str, ...] = (), model: Path | None = None, say: Say = lambda line: None) -> list[Caught]:
    """Judge clean and spoiled runs; write the admission of each file whose gates all catch their faults.

    Raises:
        UsageError: a gate names a fault that doesn't exist, or the record can't be written.
    """
    settings = _small(resolve(gates=gates, model=model, admitted=False)[0])
    names = dict.fromkeys(gate.admitted_by for loaded in settings.gates for gate in loaded.gates.gate)
    faults = {name: find_fault(name) for name in names}
    say(f"clean run, then {len(faults)} faults, on {len(settings.groups)} groups and {len(settings.arms)} arms")
    with TemporaryDirectory(prefix="replaycheck-selftest-") as scratch:
        clean, evidence = _run(settings, Path(scratch) / "clean")
        values: dict[str, Values] = {}
        for name, fault in faults.items():
            say(f"fault {name}")
            values[name] = _spoiled(settings, fault, evidence, Path(scratch) / str(len(values)))
    lines = [_line(loaded, gate.name, clean, values) for loaded in settings.gates for gate in loaded.gates.gate]
    for loaded in settings.gates:
        if all(line.caught for line in lines if line.file == loaded.name):
            _write(loaded, settings, clean, values)
    return lines


def _small(settings: Settings) -> Settings:
    """The smallest traces and cells that meet every fault: chunk kernels, exact cells, all pools and policies."""
    groups = tuple(group for group in settings.groups if group.group in GROUPS)
    if len(groups) != len(GROUPS):
        raise UsageError(
            f"the quick suite must have the groups {' and '.join(GROUPS)}, which selftest plants faults in"
        )
    matrix = tuple(
        each.model_copy(update={"history": (Kernel.CHUNK,), "tail": (Kernel.CHUNK,), "effects": (Effect.EXACT,)})
        for each in settings.suite.matrix
    )
    arms, cells = expand(settings.suite.model_copy(update={"matrix": matrix}))
    return replace(settings, groups=Groups.of(groups), arms=arms, cells=cells, explain=False)


def _run(settings: Settings, out: Path) -> tuple[Values, Evidence]:
    record, result = run(settings, out=out)
    return _by_name(result.gates), Evidence.of(result, conv_counts(record))


def _spoiled(settings: Settings, fault: Fault, clean: Evidence, out: Path) -> Values:
    """Gate values with the fault planted."""
    if fault.schedule:
        return _run(replace(settings, faults=(fault.name,)), out)[0]
    probes = run_probes(settings, [fault])
    return _by_name(judge(settings.gates, replace(clean, probes=probes)))


def _by_name(gates: tuple[GateResult, ...]) -> Values:
    return {f"{gate.file}/{gate.name}": gate for gate in gates}


def _line(loaded: LoadedGates, name: str, clean: Values, values: dict[str, Values]) -> Caught:
    gate = next(gate for gate in loaded.gates.gate if gate.name == name)
    key, spoiled = f"{loaded.name}/{name}", values[gate.admitted_by]
    also = tuple(other.split("/")[-1] for other, found in spoiled.items() if found.verdict == "fail" and other != key)
    return Caught(
        loaded.name, name, gate.admitted_by, gate.bound, clean[key].value.value, spoiled[key].value.value, also
    )


def _write(loaded: LoadedGates, settings: Settings, clean: Values, values: dict[str, Values]) -> None:
    admitted = {
        gate.name: admit(
            gate,
            clean[f"{loaded.name}/{gate.name}"].value.value,
            values[gate.admitted_by][f"{loaded.name}/{gate.name}"].value.value,
        )
        for gate in loaded.gates.gate
    }
    versions = {name: v for name, v in describe({}, "cpu", command=()).versions.items() if v is not None}
    try:
        write_admission(loaded, admitted, settings.model_digest, admission_suite_digest(), versions)
    except OSError as error:
        raise UsageError(
            f"the record of {loaded.path} can't be written ({error.strerror}); copy the file and give --gates"
        ) from None
