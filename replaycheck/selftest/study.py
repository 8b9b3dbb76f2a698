"""False alarms and caught faults, counted over seeds: ``python -m replaycheck.selftest.study [NOISY] [LAB] [FAULTS]``.

The three numbers are suite seeds: of a noisy subject with 64 traces and no model, of the lab with one small trace, and of
each fault in its own small group; 0 leaves a part out. The gates are those of ``ci`` and ``operator``. The tables are
Markdown, with Clopper and Pearson's intervals. A clean suite in which a gate fails is a false alarm; one in which a value is
over its bound and ``min_traces`` makes that inconclusive is counted beside it.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from time import process_time

from replaycheck.assets import model_dir
from replaycheck.errors import InternalError, UsageError
from replaycheck.faults.cell import SmallCell
from replaycheck.faults.fault import Fault
from replaycheck.faults.shipped import FAULTS
from replaycheck.floor.controls import with_changes
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.replay.worker import Work, keep_memory, one_thread
from replaycheck.schema.arm import Compiler, Kernel, PoolDtype
from replaycheck.schema.result import GateResult
from replaycheck.stats.intervals import proportion
from replaycheck.subjects.lab.kernels import KernelChoice

from .noisy import recording
from .reduced import ReducedSuite, arms_and_cells, judge_groups, small_groups

__all__ = ["alarms", "caught"]

Suite = Sequence[GateResult]

VARIANTS = {
    "cold, split and warm as they are, pools fp32 and bf16": SmallCell("short"),
    "fp16 pool": SmallCell("short", pool=PoolDtype.FP16),
    "the recurrent kernel for the tail": SmallCell("short", tail=Kernel.RECURRENT),
    "another engine's kernel (recipe vllm)": SmallCell("short", recipe="vllm"),
}
"""Clean variants of the lab."""

GROUPS = ("short", "twice")
"""Faults are counted whose first cell has one of these groups: the cheapest two, which 41 faults have."""

OVER_NOISE = ("worst-trace", "tail", "window", "flips", "first-divergence", "same-enough")
"""Gates that know a fault by its size alone."""


def alarms(noisy: int, lab: int) -> Iterator[str]:
    """Rows of the table of false alarms."""
    gates = _gates()
    if noisy:
        yield _alarms("noisy subject, 64 traces, no two arms alike", noisy, _noisy(gates, noisy))
    for name, cell in VARIANTS.items() if lab else ():
        suite = ReducedSuite(model_dir(None), small_groups(cell.group, range(lab)), cell)
        yield _alarms(f"lab, one trace, {name}", lab, suite.judged_one_by_one(gates))


def _gates() -> tuple[LoadedGates, ...]:
    return load_gates("ci"), load_gates("operator")


def _noisy(gates: Sequence[LoadedGates], seeds: int) -> Iterator[Suite]:
    arms, cells = arms_and_cells(SmallCell(pool=PoolDtype.FP32))
    cold = next(arm for arm in arms if arm.compiler is Compiler.COLD)
    every = (*arms, with_changes(cold, repeat=1), with_changes(cold, repeat=2))
    work = Work(every, cells, model_dir(None), "sglang", (), KernelChoice())
    (group,) = small_groups("short", [0])
    for seed in range(seeds):
        yield judge_groups(gates, work, [group], {arm.name: [recording(arm, seed)] for arm in every})


def _alarms(name: str, n: int, suites: Iterable[Suite]) -> str:
    failed, over = 0, list[set[str]]()
    for suite in suites:
        failed += any(gate.verdict == "fail" for gate in suite)
        over.append({f"{gate.file}/{gate.name}" for gate in suite if _over(gate)})
    by_gate = Counter(gate for each in over for gate in each)
    which = ", ".join(f"{gate} {count}" for gate, count in by_gate.most_common()) or "none"
    return f"| {name} | {_share(failed, n)} | {_share(sum(map(bool, over)), n)} | {which} |"


def caught(seeds: int) -> Iterator[str]:
    """Rows of the table of caught faults, by class of signature."""
    found: dict[str, list[Suite | None]] = defaultdict(list)
    names: dict[str, list[str]] = defaultdict(list)
    suites: dict[SmallCell, ReducedSuite] = {}
    for name, fault in FAULTS.items():
        if fault.expected is None or not fault.cells or fault.cells[0].group not in GROUPS:
            continue
        cell = replace(fault.cells[0], tensor_parallel=1)
        if cell != fault.cells[0]:
            continue
        suite = suites.setdefault(cell, ReducedSuite(model_dir(None), small_groups(cell.group, range(seeds)), cell))
        names[_class(fault)].append(name)
        found[_class(fault)] += _with_fault(suite, name, seeds)
    for kind, judged in sorted(found.items(), key=lambda each: -len(each[1])):
        yield _caught(kind, names[kind], judged)


def _class(fault: Fault) -> str:
    signature = fault.expected
    assert signature is not None
    conv = {"clean": "", "first layer": ", conv window wrong", "later layers": ""}[signature.conv]
    return f"state {signature.state}{conv}, {signature.onset}"


def _with_fault(suite: ReducedSuite, name: str, seeds: int) -> list[Suite | None]:
    """One judged suite a seed; None where the lab refuses to run the arm."""
    try:
        return list(suite.judged_one_by_one(_gates(), name))
    except (InternalError, ValueError, UsageError):
        return [None] * seeds


def _caught(kind: str, names: Sequence[str], judged: Sequence[Suite | None]) -> str:
    ran = [suite for suite in judged if suite is not None]
    any_gate = sum(any(gate.verdict == "fail" for gate in suite) for suite in ran) + len(judged) - len(ran)
    sized = sum(any(_over(gate) for gate in suite if gate.name in OVER_NOISE) for suite in ran)
    refused = f"; {len(judged) - len(ran)} refused" if len(ran) < len(judged) else ""
    share = _share(sized, len(ran)) if ran else "–"
    return f"| {kind} | {len(names)} | {_share(any_gate, len(judged))}{refused} | {share} |"


def _over(gate: GateResult) -> bool:
    """Whether its value is over its bound, judged or not: the sequence stops at the state, which fails first.

    Where an interval decides (equivalence), the value alone says nothing.
    """
    value = gate.value.value
    beyond = value is not None and gate.bound is not None and value > gate.bound
    return gate.verdict == "fail" or (beyond and gate.mode != "equivalence")


def _share(events: int, n: int) -> str:
    low, high = proportion(events, n)
    return f"{events} of {n} ({low:.1%} … {high:.1%})"


def main(arguments: Sequence[str]) -> None:
    """Print both tables."""
    noisy, lab, faults = (int(text) for text in [*arguments, *("200", "200", "10")[len(arguments) :]])
    one_thread()
    keep_memory()
    heads = (
        "noise, nothing wrong",
        "suites with a gate that fails (95 %)",
        "with a value over its bound (95 %)",
        "gates",
    )
    _table(heads, alarms(noisy, lab))
    heads = ("signature class", "faults", "caught by any gate (95 %)", "over a bound on noise (95 %)")
    _table(heads, caught(faults) if faults else ())


def _table(heads: Sequence[str], rows: Iterable[str]) -> None:
    begin = process_time()
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in rows:
        print(row, flush=True)
    print(f"\n{process_time() - begin:.0f} CPU s\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
