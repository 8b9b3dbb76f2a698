"""Reading gate files: shipped ones by name, others by path. Errors name the file and the key."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from replaycheck.assets import gate_file, gate_files
from replaycheck.errors import UsageError, choices
from replaycheck.schema.gate import Admission, Gate, GateFile
from replaycheck.schema.problems import problems

from .admission import admission_path, read_admission
from .metrics import METRICS

__all__ = ["LoadedGates", "load_gates"]

_MAX_BYTES = 2**20  # a gate takes about 500 bytes; more than 2,000 of them is no gate file


@dataclass(frozen=True)
class LoadedGates:
    """A gate file with its record of admission, if there is one."""

    path: Path
    gates: GateFile
    admission: Admission | None
    shipped: bool

    @property
    def name(self) -> str:
        """What reports call the file: its name if it ships, else its file name."""
        return self.path.stem if self.shipped else self.path.name


def load_gates(name: str) -> LoadedGates:
    """The gate file ``name``: a shipped one (``exact``), or a path. Admission is read here and judged elsewhere."""
    shipped = name in gate_files()
    path = Path(name)
    if not shipped and path.suffix != ".toml":
        path = gate_file(name)  # raises, and names those that ship
    path = gate_file(name) if shipped else path
    gates = _parse(path)
    for gate in gates.gate:
        _refuse_meaningless(path, gate)
    return LoadedGates(path, gates, read_admission(admission_path(path)), shipped)


def _parse(path: Path) -> GateFile:
    try:
        with path.open("rb") as handle:
            data = handle.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"gate file {str(path)!r} can't be read ({error.strerror}); give a .toml file") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"gate file {str(path)!r} has more than {_MAX_BYTES:,} bytes; give a .toml file of gates")
    try:
        gates = GateFile.model_validate(tomllib.loads(data.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"gate file {str(path)!r} isn't TOML: {error}; correct that line") from None
    except ValidationError as error:
        raise UsageError(f"gate file {str(path)!r}: {next(problems(error, 'correct the file'))}") from None
    _refuse_twins(path, gates)
    return gates


def _refuse_twins(path: Path, gates: GateFile) -> None:
    names = [gate.name for gate in gates.gate]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise UsageError(f"gate file {str(path)!r}: gate {twins[0]!r} is there twice; give each gate its own name")


def _refuse_meaningless(path: Path, gate: Gate) -> None:
    """A metric that isn't there, or a scope that its metric would ignore."""
    where = f"gate file {str(path)!r}, gate {gate.name!r}"
    if gate.metric not in METRICS:
        raise UsageError(f"{where}: metric {gate.metric!r} is unknown; allowed are {choices(METRICS)}")
    reads = METRICS[gate.metric].reads
    if gate.scope.effect is not None and reads != "cells":
        raise UsageError(f"{where}: metric {gate.metric!r} reads {reads}, which have no effect; leave out scope.effect")
    if gate.scope.pool and reads == "probes":
        raise UsageError(f"{where}: metric {gate.metric!r} reads probes, which have no pool; leave out scope.pool")
