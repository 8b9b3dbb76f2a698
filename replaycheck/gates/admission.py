"""The record that a gate can fail: ``FILE.admission.json`` beside the gate file (docs/concepts.md, Verdicts).

A gate is admitted once ``selftest`` has seen its seeded fault exceed the bound and a clean run not. A shipped file
whose record is missing, stale or too weak is refused; a user's file judges with a warning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from replaycheck.errors import UsageError
from replaycheck.json_files import read_json, write_json
from replaycheck.schema.gate import Admission, AdmittedGate, Gate

if TYPE_CHECKING:
    from .load import LoadedGates

__all__ = ["admission_path", "admit", "check_admission", "gate_digest", "read_admission", "write_admission"]


def admission_path(path: Path) -> Path:
    """``exact.toml`` → ``exact.admission.json``."""
    return path.with_name(f"{path.stem}.admission.json")


def gate_digest(gate: Gate) -> str:
    """blake2b-128 of the gate as canonical JSON: keys sorted, no spaces. The words of ``why`` count, too.

    Keys that aren't given don't count, so a key that a later version knows leaves older records valid.
    """
    given = {key: value for key, value in gate.model_dump(mode="json").items() if value is not None}
    if given["scope"]["experiment"] is None:
        del given["scope"]["experiment"]
    text = json.dumps(given, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def read_admission(path: Path) -> Admission | None:
    """The record at ``path``; None if there is none."""
    return read_json(path, Admission, "run 'replaycheck selftest' to write it anew") if path.exists() else None


def admit(gate: Gate, clean: float | None, faulty: float | None, bound: float | None = None) -> AdmittedGate:
    """What selftest saw for ``gate``: its value in a clean run and with its fault planted.

    ``bound``: that of the faulty run, where a floor decides it; None for the gate's own.

    Raises :class:`UsageError` unless clean <= bound < faulty; None means that nothing was measured.
    """
    limit = gate.bound if bound is None else bound
    if limit is None:
        raise UsageError(f"gate {gate.name!r} isn't admitted: its floor wasn't measured, so it has no bound")
    if clean is None or clean > limit:
        raise UsageError(f"gate {gate.name!r} isn't admitted: a clean run gives {clean}, above its bound {limit:g}")
    if faulty is None or faulty <= limit:
        raise UsageError(
            f"gate {gate.name!r} isn't admitted: its fault {gate.admitted_by!r} gives {faulty}, "
            f"which doesn't exceed the bound {limit:g}; name another fault or another bound"
        )
    return AdmittedGate(fault=gate.admitted_by, value=faulty, clean=clean, bound=bound, gate_digest=gate_digest(gate))


def write_admission(
    loaded: LoadedGates,
    admitted: Mapping[str, AdmittedGate],
    model_digest: str,
    suite_digest: str,
    versions: Mapping[str, str],
) -> Path:
    """Write the record of ``loaded``: ``admitted`` by gate name, for the model and suite that selftest ran.

    A record that differs in versions alone, which are for information, stays: a test run changes no file of a checkout.
    """
    path = admission_path(loaded.path)
    record = Admission(
        model_digest=model_digest, suite_digest=suite_digest, gates=dict(admitted), versions=dict(versions)
    )
    there = _readable(path)
    if there is None or there.model_copy(update={"versions": record.versions}) != record:
        write_json(path, record)
    return path


def _readable(path: Path) -> Admission | None:
    """The record that is there; None for a damaged one, too, which is written anew."""
    try:
        return read_admission(path)
    except UsageError:
        return None


def check_admission(
    loaded: LoadedGates, model_digest: str | None = None, suite_digest: str | None = None
) -> tuple[str, ...]:
    """Warnings for a user's file; :class:`UsageError` for a shipped one that may not judge.

    The digests are those of the model and suite that selftest would run now (for shipped files: the shipped ones, not
    those of the run that is judged); None leaves them unchecked.
    """
    wrong = tuple(_problems(loaded, model_digest, suite_digest))
    if wrong and loaded.shipped:
        raise UsageError(f"the shipped gate file {loaded.name!r} may not judge: {wrong[0]}; run 'replaycheck selftest'")
    advice = f"run 'replaycheck selftest --gates {loaded.path}'"
    return tuple(f"gate file {loaded.name!r}: {problem}; {advice}" for problem in wrong)


def _problems(loaded: LoadedGates, model_digest: str | None, suite_digest: str | None) -> Iterator[str]:
    record = loaded.admission
    if record is None:
        yield "no record shows that its gates can fail"
        return
    if model_digest not in (None, record.model_digest):
        yield "its record of admission was made with another model"
    if suite_digest not in (None, record.suite_digest):
        yield "its record of admission was made with another suite"
    for gate in loaded.gates.gate:
        yield from _gate_problems(gate, record.gates.get(gate.name))


def _gate_problems(gate: Gate, admitted: AdmittedGate | None) -> Iterator[str]:
    if admitted is None:
        yield f"gate {gate.name!r} has no record of admission"
        return
    bound = admitted.bound_of(gate)
    if admitted.gate_digest != gate_digest(gate):
        yield f"gate {gate.name!r} was changed after it was admitted"
    elif bound is None or not admitted.clean <= bound < admitted.value:
        yield (
            f"gate {gate.name!r} doesn't tell its fault {admitted.fault!r} ({admitted.value:g}) from a clean run "
            f"({admitted.clean:g}) at the bound {'–' if bound is None else f'{bound:g}'}"
        )
