"""A fault in the probes: which of those that it claims say so, and whether they are quiet without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replaycheck.faults.fault import Fault
from replaycheck.faults.workloads import workload
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.judge import judge
from replaycheck.gates.load import LoadedGates
from replaycheck.probes.collection import real_states
from replaycheck.probes.double_rounding import probe_double_rounding
from replaycheck.probes.kernels import probe_kernel, regimes
from replaycheck.probes.properties import probe
from replaycheck.probes.subject import SMALL
from replaycheck.probes.subject import Subject as KernelSubject
from replaycheck.replay.worker import network
from replaycheck.schema.result import ProbeResult
from replaycheck.state_probes.checks import CHECKS, plant
from replaycheck.state_probes.subject import Subject as StateSubject
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.pool import cast
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, StateKernel
from replaycheck_kernels.providers import Capabilities, ModelKind, Provider, ProviderKernel
from replaycheck_kernels.recipe import EXACT, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH

from .extremes import look
from .lab import PROBED

__all__ = ["failed_probes"]

REGIMES = ("mild", "kimi")
"""Decays of the oracle's gate here: slow, where errors last, and those of a model's start. A run takes all."""


@dataclass(frozen=True)
class _Where:
    model: Path
    gates: Sequence[LoadedGates]
    seed: int


def failed_probes(
    fault: Fault | None, claims: Sequence[str], model: Path, gates: Sequence[LoadedGates], seed: int
) -> tuple[str, ...]:
    """Those of the claimed checks that aren't gates of a cell and that fail. ``fault``: None for a clean subject."""
    where = _Where(model, gates, seed)
    found = [name for name in claims if name.startswith("state/") and _row_broken(name[6:], fault, seed)]
    found += [name for name in claims if name.startswith("kernels/") and _property_broken(name[8:], fault, seed)]
    found += [name for name in claims if name.startswith("extremes/") and _extreme(name[9:], fault, seed)]
    return (*found, *_gates(fault, [name for name in claims if name.partition("/")[2] in PROBED], where))


def _row_broken(name: str, fault: Fault | None, seed: int) -> bool:
    """A row of ``probe state`` with the fault planted."""
    subject = StateSubject(seed=seed, only=(name,))
    if fault is not None:
        plant(subject, [fault])
    if not subject.replaced:
        subject.__dict__["network"] = _tiny(seed)
    check = next(check for check in CHECKS if check.name == name)
    return check.row(subject).verdict == "broken"


@lru_cache(maxsize=1)
def _tiny(seed: int) -> Network:
    return StateSubject(seed=seed).network


def _property_broken(name: str, fault: Fault | None, seed: int) -> bool:
    """A column of ``probe kernels`` for our chunk kernel with the fault."""
    kernel = _spoiled(CHUNK_EMULATOR, fault)
    found = ProviderKernel(ModelKind.KDA, kernel, Capabilities((), devices=frozenset({"cpu"})))
    sizes = replace(SMALL, lengths=(70, 1, 64), regimes=("kimi",))
    subject = KernelSubject(Provider("selftest", (found,)), found, asked="sglang", sizes=sizes, seed=seed)
    return probe(name, subject).verdict == "broken"


def _spoiled(kernel: StateKernel, fault: Fault | None) -> StateKernel:
    """The kernel as a fault of providers or recipes leaves it."""
    if fault is None:
        return kernel
    if fault.provider is not None:
        return fault.provider(kernel)
    spoil = fault.recipe
    assert spoil is not None

    def forward(x: KdaInputs, initial: object, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        return kernel.forward(x, initial, rows, spoil(recipe))  # type: ignore[arg-type]

    return replace(kernel, forward=forward)


def _extreme(name: str, fault: Fault | None, seed: int) -> bool:
    return any(look(name, _spoiled(kernel, fault), seed).failed for kernel in (CHUNK_EMULATOR, RECURRENT_TORCH))


def _gates(fault: Fault | None, names: Sequence[str], where: _Where) -> Iterator[str]:
    """Gates of the exact file that read probes."""
    if not names:
        return
    wanted = {name.partition("/")[2] for name in names}
    probes: list[ProbeResult] = []
    if "double-rounding" in wanted:
        states = _states(where.model, where.seed)
        probes.append(probe_double_rounding(states, fault.cast if fault and fault.cast else cast))
    if "kernel-oracle" in wanted:
        probes += _oracle(fault, where.seed)
    judged = judge(where.gates, Evidence((), (), tuple(probes), (), (), 0))
    yield from (f"{gate.file}/{gate.name}" for gate in judged if gate.name in wanted and gate.verdict == "fail")


@lru_cache(maxsize=1)
def _states(model: Path, seed: int) -> NDArray[np.float32]:
    return real_states(network(model, "sglang", KernelChoice()), [workload("twice", seed)])


def _oracle(fault: Fault | None, seed: int) -> Iterator[ProbeResult]:
    for kernel in (CHUNK_EMULATOR, RECURRENT_TORCH):
        for regime in regimes(seed):
            if regime.name in REGIMES:
                yield probe_kernel(_spoiled(kernel, fault), EXACT, regime, seed)
