"""Numbers of a control against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from replaycheck.compare.spill import Spill
from replaycheck.floor.controls import Pairing
from replaycheck.floor.sums import COLUMNS, NAMED_TRACES, FloorSums
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.floor import Control, FloorKind, Floors, Measure
from replaycheck.schema.frames import to_arrow
from replaycheck.schema.tables import RESTORES
from replaycheck.stats.intervals import upper_bound
from tests.schedule.trees import arm

A, B = arm(Compiler.SPLIT), arm(Compiler.SPLIT_ROUNDED, pool=PoolDtype.BF16)
PAIR = Pairing(Control.ROUNDED, A, B)

#: trace, cluster, position, offset, Δ log p, whether the top token differs
Row = tuple[str, str, int, int | None, float, bool]


def observations(rows: Sequence[Row], free: bool = False) -> pa.Table:
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    for name, flipped in ((A.name, False), (B.name, True)):
        for trace, cluster, position, offset, d, flip in rows:
            said = {
                "arm": name, "experiment": "forced", "trace": trace, "branch": 0, "turn": 0, "position": position,
                "logprob": -1.0 + (d if flipped else 0.0), "top1": 1 + (flip and flipped), "margin": 0.25,
                "logits_digest": "same" if d == 0 or not flipped else "other", "offset_from_restore": offset,
                "cluster": cluster,
            }  # fmt: skip
            for key, value in said.items():
                columns[key].append(value)
    if free:
        columns = {
            key: [*column, *(["free" if key == "experiment" else each for each in column])]
            for key, column in columns.items()
        }
    return pa.table(columns)


def measured(tmp_path: Path, *parts: Sequence[Row], free: bool = False) -> Measure:
    with Spill(tmp_path) as spill:
        sums = FloorSums([PAIR], spill, 7)
        for part in parts:
            sums.add(observations(part, free))
        return sums.finish()[0]


TWO = [("t", "t", 5, 3, 0.3, False), ("t", "t", 6, 70, -0.4, True)]
ONE = [("u", "u", 5, None, 0.0, False)]


def test_a_trace_is_one_number_first(tmp_path: Path) -> None:
    found = measured(tmp_path, TWO, ONE)
    rms = np.sqrt((0.3**2 + 0.4**2) / 2)
    assert (found.traces, found.positions, found.bits_differ, found.flips) == (2, 3, 2, 1)
    assert found.spread.value == pytest.approx(rms / 2)
    assert (found.spread.n, found.spread.method) == (2, "cluster-t, 95%")
    assert found.spread_max == pytest.approx(rms)
    assert found.mean_abs_dlogp.value == pytest.approx(0.35 / 2)
    assert found.worst_trace_abs_dlogp.value == pytest.approx(0.35)
    assert found.trace_spread == {"t": pytest.approx(rms), "u": 0.0}
    assert found.abs_dlogp["max"] == pytest.approx(0.4)
    assert found.flip_margin_max == 0.25
    assert found.flip_traces.value == 0.5
    assert found.kind is FloorKind.RND
    assert not found.exact_zero


def test_the_window_is_64_tokens_after_a_restore(tmp_path: Path) -> None:
    edge = [("t", "t", 5, 63, 0.1, False), ("t", "t", 6, 64, 9.0, False), ("t", "t", 7, None, 9.0, False)]
    assert measured(tmp_path, edge).window_abs_dlogp.value == pytest.approx(0.1)
    assert measured(tmp_path, ONE).window_abs_dlogp.value is None


def test_traces_of_one_cluster_are_one_case(tmp_path: Path) -> None:
    shared = [("a", "c", 1, 0, 0.1, False), ("b", "c", 1, 0, 0.3, False), ("d", "d", 1, 0, 0.6, False)]
    found = measured(tmp_path, shared)
    assert found.spread.n == 2
    assert found.spread.value == pytest.approx((0.2 + 0.6) / 2)


def test_equal_bits_everywhere_are_exact_zero_with_a_bound(tmp_path: Path) -> None:
    found = measured(tmp_path, [("t", "t", at, 0, 0.0, False) for at in range(100)])
    assert found.exact_zero
    assert found.bits_differ_bound == upper_bound(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    run = found.model_copy(update={"control": Control.REPEAT})
    assert Floors(origin="own", measures=(run,)).deterministic is True
    assert Floors(origin="own", measures=(found,)).deterministic is None
    noisy = measured(tmp_path, TWO).model_copy(update={"control": Control.REPEAT})
    assert Floors(origin="own", measures=(run, noisy)).deterministic is False


def test_a_nan_is_counted_and_no_number(tmp_path: Path) -> None:
    found = measured(tmp_path, [("t", "t", 1, 0, float("nan"), False), ("t", "t", 2, 0, 0.5, False)])
    assert (found.not_finite, found.bits_differ) == (1, 2)
    assert found.mean_abs_dlogp.value == 0.5


def test_a_free_run_is_no_part_of_a_floor(tmp_path: Path) -> None:
    assert measured(tmp_path, TWO, free=True) == measured(tmp_path, TWO)


def test_many_traces_are_not_written_down_one_by_one(tmp_path: Path) -> None:
    many = [(f"t{i}", f"t{i}", 1, 0, 0.1, False) for i in range(NAMED_TRACES + 1)]
    assert measured(tmp_path, many).trace_spread == {}
    assert len(measured(tmp_path, many[1:]).trace_spread) == NAMED_TRACES


def test_state_errors_are_those_of_one_cast_in_the_pairings_cells(tmp_path: Path) -> None:
    rows = {
        "cell": ["state/x", "state/x", "exact/x"], "trace": ["t"] * 3, "restore": ["0/0@4"] * 3, "layer": [0, 1, 0],
        "head": [0, 0, 0], "rel_error": [0.0] * 3, "max_error": [0.0] * 3, "one_cast_error": [0.001, 0.003, 9.0],
        "bf16_share": [None] * 3, "conv_equal": [True] * 3, "label": ["final"] * 3, "dtype": ["bf16"] * 3,
    }  # fmt: skip
    assert set(rows) == set(RESTORES.names)
    with Spill(tmp_path) as spill:
        sums = FloorSums([PAIR], spill, 0, [frozenset({"state/x"})])
        sums.add(observations(TWO), to_arrow("restores", rows))
        found = sums.finish()[0]
    assert found.state_rel_error is not None
    assert found.state_rel_error.value == pytest.approx(0.002)
    assert found.state_rel_error_max == 0.003


def test_the_num_floor_of_cells_is_the_same_policys_unless_that_shows_no_noise(tmp_path: Path) -> None:
    noisy = measured(tmp_path, TWO).model_copy(update={"control": Control.SPLIT})
    quiet = measured(tmp_path, ONE).model_copy(update={"control": Control.SPLIT, "policy": "grid64"})
    floors = Floors(origin="own", measures=(quiet, noisy))
    where = A.history, A.tail, A.answers
    assert floors.num_for(*where, noisy.policy) == noisy
    assert floors.num_for(*where, "grid64") == noisy
    assert Floors(origin="own", measures=(quiet,)).num_for(*where, "grid64") == quiet
    assert floors.rnd_for(*where, B.policy.slug, PoolDtype.BF16) is None
