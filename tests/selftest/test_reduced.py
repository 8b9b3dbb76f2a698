"""The reduced suite on the lab: gates over noise fail nothing clean, and a fault of each size in the stage that shows it."""

from __future__ import annotations

import pytest

from replaycheck.assets import model_dir
from replaycheck.faults.cell import SmallCell
from replaycheck.gates.load import load_gates
from replaycheck.replay.settings import resolve
from replaycheck.replay.worker import one_thread
from replaycheck.schema.arm import Compiler
from replaycheck.selftest.reduced import ReducedSuite, arms_and_cells, small_groups


@pytest.fixture(scope="module")
def suite() -> ReducedSuite:
    one_thread()
    return ReducedSuite(model_dir(None), small_groups("short", range(2)), SmallCell("short"))


def test_groups_of_other_seeds_have_other_texts_and_names() -> None:
    a, b = small_groups("short", (0, 1))
    assert {trace.id for trace in a.traces}.isdisjoint(trace.id for trace in b.traces)
    assert {request.trace for request in b.requests} <= {trace.id for trace in b.traces}
    assert a.traces[0].turns[0].text != b.traces[0].turns[0].text


def test_every_cell_has_its_floor() -> None:
    arms, cells = arms_and_cells(SmallCell())
    assert {cell.effect for cell in cells} == {"grid", "state", "exact", "total"}
    assert {arm.pool for arm in arms if arm.compiler is Compiler.WARM} == {"fp32", "bf16"}


def test_clean_gates_fail_nothing_and_two_traces_are_too_few(suite: ReducedSuite) -> None:
    found = suite.judged([load_gates("ci")])
    assert {gate.verdict for gate in found} == {"inconclusive"}
    assert all(gate.traces_needed == 64 for gate in found)
    fp32 = next(gate for gate in found if gate.name == "fp32-pool")
    assert (fp32.mode, fp32.bound, fp32.value.value) == ("exact-zero", 0, 0)


@pytest.mark.parametrize(("fault", "failing"), [("silu-missing", "state-error"), ("beta-bf16", "fp32-pool")])
def test_a_large_fault_fails_in_the_state_and_a_rounding_where_nothing_may_differ(
    suite: ReducedSuite, fault: str, failing: str
) -> None:
    found = {gate.name: gate for gate in suite.judged([load_gates("ci")], fault)}
    assert found[failing].verdict == "fail"
    assert found["same-kernel"].verdict == "inconclusive"
    assert found["flips"].verdict == "not-judged"


def test_one_by_one_is_a_suite_a_group(suite: ReducedSuite) -> None:
    assert [{gate.traces for gate in one} for one in suite.judged_one_by_one([load_gates("ci")])] == [{1}, {1}]


@pytest.mark.parametrize(("preset", "files"), [("ci", ["exact", "ci"]), ("full", ["exact", "ci", "operator"])])
def test_the_presets_judge_by_files_that_are_admitted(preset: str, files: list[str]) -> None:
    settings, warnings = resolve(preset=preset)
    assert [loaded.name for loaded in settings.gates] == files
    assert warnings == ()
    traces = sum(len(group.traces) for group in settings.groups)
    assert all(gate.min_traces <= traces for loaded in settings.gates for gate in loaded.gates.gate)
