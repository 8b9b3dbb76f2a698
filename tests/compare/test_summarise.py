"""Cells, arms and audits summed up: counts that can be checked by hand, and the rules of vacuity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from replaycheck.compare.group import compare_group
from replaycheck.compare.record import ArmRecording, WrittenState
from replaycheck.compare.spill import Spill
from replaycheck.compare.summarise import Summariser
from replaycheck.compare.totals import add_arms, add_audits, audit_results
from replaycheck.schema.arm import Effect, PoolDtype
from replaycheck.schema.result import CellResult
from tests import synthetic_run as syn

ARMS, CELLS = syn.arms_and_cells(PoolDtype.BF16)
POSITIONS = 3 * syn.TURNS * syn.SCORED


def cells(found: dict[str, ArmRecording]) -> dict[Effect, CellResult]:
    group = compare_group("g", ARMS, CELLS, found)
    arms = {arm.name: arm for arm in group.record.arms}
    with TemporaryDirectory() as scratch, Spill(Path(scratch)) as spill:
        sums = Summariser(CELLS, spill)
        sums.add("g", *(group.tables[name] for name in ("pairs", "observations", "restores")))
        return {cell.effect: cell for cell in sums.finish(arms)}


def test_exact_cell_is_zero_everywhere() -> None:
    cell = cells(syn.recordings(ARMS))[Effect.EXACT]
    assert (cell.traces, cell.positions, cell.restores) == (2, POSITIONS, 6)
    assert (cell.bits_differ, cell.flips, cell.conv_unequal, cell.restore_max_error) == (0, 0, 0, 0)
    assert cell.abs_dlogp == {"p50": 0, "p90": 0, "p99": 0, "p999": 0, "max": 0}
    assert cell.kl_mean.value == 0
    assert (cell.kl_mean.low, cell.kl_mean.high) == (0, 0)
    assert cell.diverged_branches == {"all": 3, "bits": 0, "argmax": 0, "tolerance": 0}
    assert cell.first_divergence == {"bits": None, "argmax": None, "tolerance": None}
    assert not cell.vacuous


def test_state_cell_shows_the_cast_and_where_it_began() -> None:
    cell = cells(syn.recordings(ARMS))[Effect.STATE]
    assert cell.bits_differ == 6 * syn.SCORED
    assert cell.state_rel_error is not None
    assert 1e-3 < cell.state_rel_error < 2**-8  # rms of one bf16 rounding is 1.66e-3
    assert cell.diverged_branches["bits"] == 3
    assert cell.first_divergence["bits"] == syn.position(1) - syn.restored_at(1)
    assert cell.kl_mean.n == 2
    assert cell.kl_mean.value is not None
    assert cell.kl_mean.value > 0


def test_a_warm_arm_without_a_proven_hit_makes_its_cells_vacuous_and_no_other() -> None:
    found = cells(syn.in_warm(syn.recordings(ARMS), proven_hits=0))
    assert {effect for effect, cell in found.items() if cell.vacuous} == {Effect.EXACT, Effect.STATE, Effect.TOTAL}
    assert "proven" not in found[Effect.GRID].why_vacuous


def test_cells_without_positions_are_vacuous() -> None:
    empty = {name: replace(one, turns=(), restores=()) for name, one in syn.recordings(ARMS).items()}
    found = cells(empty)
    assert all(cell.vacuous for cell in found.values())
    assert found[Effect.GRID].why_vacuous == "no position was compared"
    assert found[Effect.GRID].abs_dlogp == {}


def test_positions_without_a_number_are_counted_apart() -> None:
    found = syn.recordings(ARMS)
    turn = found[CELLS[0].candidate].turns[-1]
    warm = next(one for name, one in found.items() if name.startswith("warm"))
    bad = replace(warm.turns[-1], logits=np.full_like(turn.logits, np.nan))
    cell = cells(syn.in_warm(found, turns=(*warm.turns[:-1], bad)))[Effect.EXACT]
    assert (cell.bits_differ, cell.not_finite) == (syn.SCORED, syn.SCORED)
    assert cell.abs_dlogp["max"] == 0


def test_arms_of_two_groups_add_up() -> None:
    record = compare_group("g", ARMS, CELLS, syn.recordings(ARMS)).record
    other = [arm.model_copy(update={"kernels": {"tail": ("x",), "history": ("chunk", "x")}}) for arm in record.arms]
    total = {arm.name: arm for arm in add_arms([*record.arms, *other])}
    for arm in record.arms:
        assert total[arm.name].positions == 2 * POSITIONS
        assert total[arm.name].proven_hits == 2 * arm.proven_hits
        assert total[arm.name].kernels == {"answer": ("recurrent",), "history": ("chunk", "x"), "tail": ("x",)}


def test_audits_count_states_and_those_that_fit_bf16() -> None:
    shares = np.array([[1.0, 0.125], [np.nan, 1.0]])
    written = (WrittenState("final", (0, 2), shares, False), WrittenState("final", (0, 2), shares / 2, False))
    rows = {(row.layer, row.head): row for row in audit_results(ArmRecording("arm", (), (), written))}
    assert (rows[0, 0].states, rows[0, 0].bf16_like) == (2, 1)
    assert (rows[0, 0].min_share, rows[0, 0].max_share) == (0.5, 1.0)
    assert rows[0, 1].bf16_like == 0
    assert (rows[2, 0].min_share, rows[2, 0].max_share) == (None, None)
    assert add_audits([*rows.values(), *rows.values()])[0].states == 4


def test_a_declared_bf16_pool_is_never_counted() -> None:
    written = (WrittenState("final", (0,), np.array([[1.0]]), True),)
    assert audit_results(ArmRecording("arm", (), (), written))[0].bf16_like == 0


def test_tables_of_a_group_have_the_columns_of_the_contract() -> None:
    tables = compare_group("g", ARMS, CELLS, syn.recordings(ARMS)).tables
    assert {name: table.num_rows for name, table in tables.items()} == {
        "observations": len(ARMS) * POSITIONS,
        "pairs": len(CELLS) * POSITIONS,
        "restores": 2 * 6 * len(syn.LAYERS) * syn.HEADS,
    }
    assert all(isinstance(table, pa.Table) for table in tables.values())
