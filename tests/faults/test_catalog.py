"""Each fault is whole as data: cells that exist, claims that some check can answer, an expected signature."""

from __future__ import annotations

import pytest

from replaycheck.errors import UsageError
from replaycheck.faults.cell import SmallCell
from replaycheck.faults.fault import Fault
from replaycheck.faults.shipped import FAULTS
from replaycheck.faults.workloads import WORKLOADS, workload
from replaycheck.gates.load import load_gates
from replaycheck.probes.properties import NAMES as PROPERTIES
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.simulate import simulate
from replaycheck.schema.arm import Compiler
from replaycheck.selftest.extremes import EXTREMES
from replaycheck.state_probes.checks import CHECKS

GATES = {f"exact/{gate.name}" for gate in load_gates("exact").gates.gate}
KNOWN = (
    GATES
    | {f"state/{check.name}" for check in CHECKS}
    | {f"kernels/{name}" for name in PROPERTIES}
    | {f"extremes/{name}" for name in EXTREMES}
    | {"plan/simulator", "lab/refused"}
)
IN_CELLS = {"plan/simulator", "lab/refused"} | GATES - {"exact/kernel-oracle", "exact/double-rounding"}


REFUSED = {
    "block-under-window": "give a block of at least the window",
    "ring-overflow": "give a ring of at least the window",
    "pool-not-had": "fp16 needs rollback copy or replay",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_claims_known_checks_and_has_a_cell_for_those_of_cells(name: str) -> None:
    fault = FAULTS[name]
    assert fault.name == name
    assert fault.claims and set(fault.claims) <= KNOWN
    assert bool(fault.cells) or not IN_CELLS & set(fault.claims)
    assert {cell.group for cell in (*fault.cells, *fault.silent_on)} <= set(WORKLOADS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_with_a_cell_that_runs_says_what_it_shows_there(name: str) -> None:
    fault = FAULTS[name]
    runs = bool(fault.cells) and "lab/refused" not in fault.claims
    assert (fault.expected is not None) is runs


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.schedule and fault.cells])
def test_a_plan_fault_changes_the_plan_of_its_cells_and_no_reference(name: str) -> None:
    fault = FAULTS[name]
    for cell in fault.cells:
        if fault.claims == ("lab/refused",):
            with pytest.raises(UsageError, match=REFUSED[name]):
                compile_schedule(workload(cell.group, 0), cell.arms[1])
            continue
        warm = compile_schedule(workload(cell.group, 0), cell.arms[1])
        assert simulate(warm).problems == []
        assert fault.on_schedule(warm) != warm
        rounded = compile_schedule(workload(cell.group, 0), cell.arms[0])
        assert fault.on_schedule(rounded) is rounded


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_has_other_letters_with_another_seed_and_the_same_lengths(name: str) -> None:
    one, other = workload(name, 0), workload(name, 1)
    assert workload(name, 0) == one
    assert one != other
    assert [len(turn.tokens) for turn in one.traces[0].turns] == [len(turn.tokens) for turn in other.traces[0].turns]


def test_a_cell_without_a_hit_would_prove_nothing() -> None:
    cells = {cell for fault in FAULTS.values() for cell in fault.cells if fault.claims != ("lab/refused",)}
    for cell in cells:
        plan = compile_schedule(workload(cell.group, 0), cell.arm(Compiler.WARM))
        assert plan.expected_hits or cell.policy.slug.startswith("vllm-none"), cell.name


def test_a_fault_names_the_kinds_that_it_may_spoil() -> None:
    with pytest.raises(
        UsageError, match="exactly one of schedule, recipe, provider, weights, shards, cast, pool, cache or"
    ):
        Fault("mine", "nothing", "RC101")


def test_the_name_of_a_cell_says_what_is_unlike_the_usual() -> None:
    assert SmallCell().name == "chat/grid64+turn/bf16"
    assert SmallCell("short", tensor_parallel=2, recipe="exact").name == "short/grid64+turn/bf16/tp2/exact"
