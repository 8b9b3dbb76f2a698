"""Reading gate files: shipped ones by name, others by path. Errors name the file, the line and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from replaycheck.assets import gate_file, gate_files
from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.schema.arm import Effect
from replaycheck.schema.gate import Admission, Gate, GateFile, Waiver
from replaycheck.schema.problems import problems
from replaycheck.toml_lines import line_of, table_lines

from .admission import admission_path, read_admission
from .metrics import METRICS

__all__ = ["LoadedGates", "load_gates"]

_MAX_BYTES = 2**18  # a gate takes about 500 bytes; more than 500 of them is no gate file


@dataclass(frozen=True)
class LoadedGates:
    """A gate file with its record of admission, if there is one. lines: by gate, where its table begins in the file."""

    path: Path
    gates: GateFile
    admission: Admission | None
    shipped: bool
    lines: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What reports call the file: its name if it ships, else its file name."""
        return self.path.stem if self.shipped else self.path.name

    @property
    def over_noise(self) -> bool:
        """Whether a gate judges what may differ: over a floor, or in cells other than the exact ones."""
        exact = (None, Effect.EXACT)
        return any(gate.floor is not None or gate.scope.effect not in exact for gate in self.gates.gate)

    def line(self, name: str) -> int | None:
        """Of a gate, by name; None if the file doesn't write gates as ``[[gate]]``."""
        names = [gate.name for gate in self.gates.gate]
        return self.lines[names.index(name)] if len(self.lines) == len(names) else None

    def waiver(self, name: str) -> Waiver | None:
        """Of a gate, by name."""
        return next((waiver for waiver in self.gates.waiver if waiver.gate == name), None)


def load_gates(name: str) -> LoadedGates:
    """The gate file ``name``: a shipped one (``exact``), or a path. Admission is read here and judged elsewhere."""
    shipped = name in gate_files()
    path = Path(name)
    if not shipped and path.suffix != ".toml":
        path = gate_file(name)  # raises, and names those that ship
    path = gate_file(name) if shipped else path
    text = _read(path)
    gates = _parse(path, text)
    for place, wrong in _wrong(gates):
        raise UsageError(f"{_where(path, text, place)}: {wrong}")
    return LoadedGates(path, gates, read_admission(admission_path(path)), shipped, table_lines(text, "gate"))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            data = handle.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"gate file {str(path)!r} can't be read ({error.strerror}); give a .toml file") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"gate file {str(path)!r} has more than {_MAX_BYTES:,} bytes; give a .toml file of gates")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"gate file {str(path)!r} isn't TOML: {error}; save it as UTF-8") from None


def _parse(path: Path, text: str) -> GateFile:
    try:
        return GateFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"gate file {str(path)!r} isn't TOML: {error}; correct that line") from None
    except ValidationError as error:
        problem = next(problems(error, "correct the file", GateFile))
        raise UsageError(f"{_where(path, text, problem.location)}: {problem}") from None


def _where(path: Path, text: str, location: Sequence[int | str]) -> str:
    line = line_of(text, location)
    return f"gate file {str(path)!r}" + (f", line {line}" if line else "")


def _wrong(gates: GateFile) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What no schema can see: where, and in words."""
    names = [gate.name for gate in gates.gate]
    for at, gate in enumerate(gates.gate):
        if gate.name in names[:at]:
            yield ("gate", at, "name"), f"gate {gate.name!r} is there twice; give each gate its own name"
        for key, wrong in _meaningless(gate):
            yield ("gate", at, key), f"gate {gate.name!r}: {wrong}"
    waived = [waiver.gate for waiver in gates.waiver]
    for at, name in enumerate(waived):
        if name not in names:
            yield (
                ("waiver", at, "gate"),
                f"waiver of {name!r}, which is no gate of this file{did_you_mean(name, names)}; those are {choices(names)}",
            )
        if name in waived[:at]:
            yield ("waiver", at, "gate"), f"gate {name!r} is waived twice; keep one of the two"


def _meaningless(gate: Gate) -> Iterator[tuple[str, str]]:
    """A metric that isn't there, or keys that its metric would ignore: the key, and in words."""
    if gate.metric not in METRICS:
        yield (
            "metric",
            (f"metric {gate.metric!r} is unknown{did_you_mean(gate.metric, METRICS)}; allowed are {choices(METRICS)}"),
        )
        return
    metric, name = METRICS[gate.metric], f"metric {gate.metric!r}"
    if gate.scope.effect is not None and metric.reads != "cells":
        yield "scope", f"{name} reads {metric.reads}, which have no effect; leave out scope.effect"
    if gate.scope.experiment is not None and not metric.experiments:
        yield "scope", f"{name} doesn't look at experiments; leave out scope.experiment"
    if gate.scope.pool and metric.reads == "probes":
        yield "scope", f"{name} reads probes, which have no pool; leave out scope.pool"
    for key in ("k", "horizon"):
        if getattr(gate, key) is not None and key not in metric.keys:
            yield key, f"{name} takes no {key}; leave it out"
        if getattr(gate, key) is None and key in metric.needs:
            yield "metric", f"{name} needs {key}; give it"
    yield from _unfit_floor(gate)


def _unfit_floor(gate: Gate) -> Iterator[tuple[str, str]]:
    metric, name = METRICS[gate.metric], f"metric {gate.metric!r}"
    if gate.floor is None and not metric.constant:
        yield "bound", f"{name} is a multiple of a floor; give floor and factor instead of bound"
    if gate.floor is not None and gate.floor not in metric.floors:
        allowed = f"allowed are {choices(sorted(metric.floors))}" if metric.floors else "give bound"
        yield "floor", f"{name} has no bound over the floor {gate.floor.value!r}; {allowed}"
    if not metric.constant and gate.factor is not None and gate.factor <= 1:
        yield "factor", f"{name} takes a factor above 1, the ratio of no difference; given {gate.factor:g}"
