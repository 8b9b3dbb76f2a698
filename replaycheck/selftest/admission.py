"""Admission: plant each gate's fault and see that the gate, and only then, fails.

Gates of what must be exact: plan faults run the main job on a few groups of the quick suite, casts and recipes are judged
by the probes. Gates over noise need floors and several traces: a reduced suite of the preset ``ci``. A gate is admitted if
its clean value is within its bound and its fault's value isn't; the record is written next to the gate file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from replaycheck.assets import trace_suite
from replaycheck.errors import UsageError
from replaycheck.faults.cell import SmallCell
from replaycheck.faults.fault import Fault, find_fault
from replaycheck.gates.admission import admit, write_admission
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge
from replaycheck.gates.load import LoadedGates
from replaycheck.replay.assemble import conv_counts
from replaycheck.replay.environment import describe
from replaycheck.replay.groups import Groups
from replaycheck.replay.parts import RunTables
from replaycheck.replay.run import run, run_probes
from replaycheck.replay.settings import Settings, admission_suite_digest, resolve
from replaycheck.replay.worker import one_thread
from replaycheck.say import Say
from replaycheck.schema.arm import Effect, Kernel
from replaycheck.schema.result import GateResult
from replaycheck.schema.suite import expand
from replaycheck.schema.trace import Group
from replaycheck.traces.read import each_group

from .reduced import ReducedSuite

GROUPS = ("regenerate_and_fork", "edges_64")
"""Small groups with every kind of hit: decoded states, states inside an extend and at its end, forks, odd tails."""

SHIPPED = ("exact", "ci", "operator")
"""What a selftest without ``--gates`` admits: the files of the presets."""

REDUCED = ("ci26", "ci50", "ci69", "ci57", "ci32", "ci54", "ci71", "ci23", "ci67", "ci55", "ci70", "ci04", "ci51")
"""Groups of the preset ``ci`` by the beginning of their names: the smallest one or two of ten archetypes, 17 traces. Those
with long prompts are left to the preset itself."""

Values = dict[str, GateResult]


@dataclass(frozen=True)
class Caught:
    """One gate with its fault. bounds: in the clean run, and in the faulty one; they differ if a floor does."""

    file: str
    gate: str
    fault: str
    bounds: tuple[float | None, float | None]
    clean: float | None
    faulty: float | None
    also: tuple[str, ...]

    @property
    def caught(self) -> bool:
        within, beyond = self.bounds
        clean = self.clean is not None and within is not None and self.clean <= within
        return clean and self.faulty is not None and beyond is not None and self.faulty > beyond


def admission(gates: tuple[str, ...] = (), model: Path | None = None, say: Say = lambda line: None) -> list[Caught]:
    """Judge clean and spoiled runs; write the admission of each file whose gates all catch their faults.

    Raises:
        UsageError: a gate names a fault that doesn't exist, or the record can't be written.
    """
    settings = resolve(gates=gates or SHIPPED, model=model, admitted=False)[0]
    noisy = tuple(loaded for loaded in settings.gates if loaded.over_noise)
    exact = tuple(loaded for loaded in settings.gates if not loaded.over_noise)
    lines = _over_noise(settings, noisy, say) if noisy else []
    return [*(_exact(_small(replace(settings, gates=exact)), say) if exact else []), *lines]


def _faults(files: Sequence[LoadedGates]) -> dict[str, Fault]:
    """Those that the gates of some files name."""
    return {gate.admitted_by: find_fault(gate.admitted_by) for loaded in files for gate in loaded.gates.gate}


def _exact(settings: Settings, say: Say) -> list[Caught]:
    faults = _faults(settings.gates)
    say(f"clean run, then {len(faults)} faults, on {len(settings.groups)} groups and {len(settings.arms)} arms")
    with TemporaryDirectory(prefix="replaycheck-selftest-") as scratch:
        clean, evidence = _run(settings, Path(scratch) / "clean")
        values: dict[str, Values] = {}
        for name, fault in faults.items():
            say(f"fault {name}")
            values[name] = _spoiled(settings, fault, evidence, Path(scratch) / str(len(values)))
    return _admitted(settings, clean, values)


def _over_noise(settings: Settings, files: tuple[LoadedGates, ...], say: Say) -> list[Caught]:
    faults = _faults(files)
    groups = _reduced()
    say(f"gates over noise: clean, then {len(faults)} faults, on {len(groups)} groups of the preset ci")
    one_thread()
    suite = ReducedSuite(settings.model, groups, SmallCell())
    clean = _by_name(suite.judged(files))
    values: dict[str, Values] = {}
    for name in faults:
        say(f"fault {name}")
        values[name] = _by_name(suite.judged(files, name))
    return _admitted(replace(settings, gates=files), clean, values)


def _reduced() -> tuple[Group, ...]:
    found = {group.group.partition(".")[0]: group for group in each_group(trace_suite("ci"))}
    return tuple(found[name] for name in REDUCED)


def _admitted(settings: Settings, clean: Values, values: dict[str, Values]) -> list[Caught]:
    """A line a gate, and a record for each file all of whose gates catch their faults."""
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
    return _by_name(result.gates), Evidence.of(result, conv_counts(record), RunTables(record))


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
    before, after = clean[key], spoiled[key]
    return Caught(
        loaded.name,
        name,
        gate.admitted_by,
        (before.bound, after.bound),
        before.value.value,
        after.value.value,
        tuple(dict.fromkeys(also)),
    )


def _write(loaded: LoadedGates, settings: Settings, clean: Values, values: dict[str, Values]) -> None:
    admitted = {
        gate.name: admit(
            gate,
            clean[f"{loaded.name}/{gate.name}"].value.value,
            values[gate.admitted_by][f"{loaded.name}/{gate.name}"].value.value,
            None if gate.floor is None else values[gate.admitted_by][f"{loaded.name}/{gate.name}"].bound,
        )
        for gate in loaded.gates.gate
    }
    versions = {name: v for name, v in describe({}, "cpu", command=()).versions.items() if v is not None}
    try:
        write_admission(loaded, admitted, settings.model_digest, admission_suite_digest(loaded.over_noise), versions)
    except OSError as error:
        raise UsageError(
            f"the record of {loaded.path} can't be written ({error.strerror}); copy the file and give --gates"
        ) from None
