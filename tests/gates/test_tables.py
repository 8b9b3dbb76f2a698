"""What gates read from tables, on a few rows: sums a trace, states in roundings, the curve of first divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replaycheck.compare.restores import LARGEST
from replaycheck.gates.evidence import Evidence
from replaycheck.gates.measured import Measured
from replaycheck.gates.states import state_error
from replaycheck.gates.sums import cell_values, sum_traces
from replaycheck.gates.survival import first_divergence
from replaycheck.gates.tables import InMemory
from replaycheck.schema.tables import DIVERGENCES, PAIRS, RESTORES
from tests.gates.pieces import cell, estimate, evidence, gate, measure

PAIR = {"cell": "a", "experiment": "forced", "cluster": "k", "trace": "t", "dlogp": 0.0, "flip": False, "margin": 1.0,
        "bits_equal": True, "offset_from_restore": 0}  # fmt: skip
RESTORE = {"cell": "state/x", "trace": "t", "restore": "0/1@64", "layer": 0, "head": 0, "rel_error": 1e-3,
           "one_cast_error": 1e-3}  # fmt: skip
CASE = {"cell": "state/x", "trace": "t", "kind": "argmax", "experiment": "forced", "offset_from_restore": 9,
        "censored": False}  # fmt: skip


def table(schema: pa.Schema, base: dict[str, Any], *rows: dict[str, Any]) -> pa.Table:
    columns = {name: [(base | row).get(name) for row in rows] for name in schema.names}
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema=schema)


class Blocks:
    """One table in several blocks, as parts of a run give them."""

    def __init__(self, *blocks: pa.Table) -> None:
        self.parts = blocks

    def blocks(self, table: str, columns: Any) -> Any:
        return (block.select(list(columns)) for block in self.parts)


def pairs(*rows: dict[str, Any]) -> pa.Table:
    return table(PAIRS, PAIR, *rows)


def test_a_trace_is_summed_by_cell_and_the_cells_of_several_parts_are_joined() -> None:
    found = sum_traces(Blocks(
        pairs({"dlogp": 3.0}, {"dlogp": -4.0, "bits_equal": False}, {"trace": "u", "dlogp": 1.0},
              {"cell": "b", "dlogp": 9.0}, {"cell": "b", "trace": "u", "dlogp": 7.0}, {"cell": "b", "trace": "v"}),
        pairs({"trace": "w", "cluster": "l", "dlogp": 2.0}, {"trace": "x", "dlogp": 5.0}),
    ))  # fmt: skip
    a, b = found["a"], found["b"]
    assert (a.traces, b.traces) == (("t", "u", "w", "x"), ("t", "u", "v"))
    assert a.cluster.tolist() == [0, 0, 1, 0]
    assert a.positions.tolist() == [2, 1, 1, 1]
    assert a.mean.tolist() == [3.5, 1, 2, 5]
    assert a.spread.tolist() == [np.sqrt(12.5), 1, 2, 5]
    assert a.bits_differ.tolist() == [1, 0, 0, 0]
    assert b.mean.tolist() == [9, 7, 0]


def test_more_cells_than_traces_are_kept_apart() -> None:
    names = [(cell, trace) for cell in "abcd" for trace in "tu"]
    found = sum_traces(Blocks(pairs(*({"cell": c, "trace": t, "dlogp": float(at)} for at, (c, t) in enumerate(names)))))
    assert [found[name].mean.tolist() for name in "abcd"] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_the_window_holds_64_tokens_from_the_restored_one_on() -> None:
    offsets = {-1: 100.0, 0: 1.0, 63: 3.0, 64: 100.0, None: 100.0}
    rows = [{"offset_from_restore": at, "dlogp": value} for at, value in offsets.items()]
    found = sum_traces(Blocks(pairs(*rows, {"trace": "u", "offset_from_restore": None})))["a"]
    assert found.window[0] == 2
    assert np.isnan(found.window[1])


def test_flips_are_those_of_the_cell_and_an_infinite_margin_is_the_largest() -> None:
    found = sum_traces(Blocks(pairs(
        {"flip": True, "margin": 0.5}, {"flip": True, "margin": None}, {"flip": False, "margin": 7.0},
        {"cell": "b", "flip": True, "margin": 0.25},
    )))  # fmt: skip
    assert sorted(found["a"].flip_margin) == [0.5, LARGEST]
    assert found["b"].flip_margin.tolist() == [0.25]


def test_what_the_subject_said_nothing_about_is_left_out_and_what_has_no_number_counts_as_the_largest() -> None:
    unsaid = {"dlogp": None, "bits_equal": None}
    not_a_number = {"dlogp": None, "bits_equal": False}
    blocks = Blocks(pairs({"dlogp": 1.0}, unsaid, {"trace": "u"} | not_a_number), pairs({"trace": "v"} | unsaid))
    found = sum_traces(blocks)["a"]
    assert (found.traces, found.positions.tolist()) == (("t", "u"), [1, 1])
    assert found.mean.tolist() == [1, LARGEST]
    assert sum_traces(Blocks(pairs({"dlogp": 1.0, "bits_equal": None})))["a"].bits_differ.tolist() == [0]


def test_each_experiment_has_its_own_rows() -> None:
    blocks = Blocks(pairs({"dlogp": 1.0}, {"experiment": "free", "dlogp": 2.0}), pairs({"experiment": "free"}))
    assert sum_traces(blocks)["a"].mean.tolist() == [1]
    assert sum_traces(blocks, "free")["a"].mean.tolist() == [2, 0]


def test_the_values_of_one_cell_with_their_clusters() -> None:
    blocks = Blocks(pairs({"cell": "b"}), pairs({"dlogp": -2.0}, {"cell": "b", "dlogp": 5.0}, {"cluster": "l"}))
    values, clusters = cell_values(blocks, "a")
    assert (values.tolist(), clusters) == ([2, 0], ["k", "l"])
    assert cell_values(blocks, "c")[0].tolist() == []


def error(*blocks: pa.Table) -> Measured:
    return state_error(evidence([cell()], tables=Blocks(*blocks)), gate(bound=1.5))


def restores(*rows: dict[str, Any]) -> pa.Table:
    return table(RESTORES, RESTORE, *rows)


def test_only_the_first_recurrent_layer_is_read() -> None:
    found = error(restores({"layer": 2, "rel_error": 1.0}, {"rel_error": 2e-3}, {"layer": 2, "rel_error": 9.0}))
    assert found.estimate.value == pytest.approx(2)
    assert (found.estimate.n, found.worst) == (1, "state/x, trace t, restore 0/1@64, head 0")
    assert found.words == "the worst of 1 restored states of layer 0 has 2 times one cast's error"


def test_the_worst_state_is_that_of_all_parts() -> None:
    small, large = restores({"trace": "u"}), restores({"head": 1, "rel_error": 3e-3}, {"head": 0})
    deeper = restores({"layer": 3, "rel_error": 1.0})
    for blocks in (
        (small, large),
        (large, small),
        (deeper, large, small),
        (large, small, deeper),
        (large, large, small),
    ):
        found = error(*blocks)
        assert found.estimate.value == pytest.approx(3)
        assert found.worst.endswith("trace t, restore 0/1@64, head 1")
        assert found.estimate.n == sum(len(each) for each in blocks if each is not deeper)


def test_of_states_that_are_as_bad_the_first_is_named() -> None:
    assert "trace t," in error(restores({}), restores({"trace": "u"})).worst


def test_no_error_is_0_roundings_and_an_error_that_no_cast_explains_is_beyond_all() -> None:
    none = error(restores({"rel_error": 0.0, "one_cast_error": 0.0}))
    assert none.estimate.value == 0
    assert error(restores({"rel_error": 1.0, "one_cast_error": 0.5})).estimate.value == 2
    beyond = error(restores({"rel_error": 1e-9, "one_cast_error": 0.0}))
    assert beyond.estimate.value == LARGEST
    assert "beyond any multiple of one cast's error" in beyond.words
    assert "nothing was measured" in error(restores({"cell": "other"})).words


def curve(*rows: dict[str, Any], measures: Any = (), **more: Any) -> Measured:
    of = evidence([cell()], measures, tables=Blocks(table(DIVERGENCES, CASE, *rows)))
    return first_divergence(of, gate(metric="first-divergence", horizon=10, **more))


FOUR = tuple({"trace": name, "offset_from_restore": at, "censored": censored}
             for name, at, censored in [("t", 5, False), ("u", 20, True), ("v", 30, True), ("w", 40, False)])  # fmt: skip


def test_the_share_that_parted_has_the_interval_of_the_curve_turned_round() -> None:
    found = curve(*FOUR)
    assert (found.estimate.value, found.estimate.n, found.high_decides) == (0.25, 4, True)
    assert found.estimate.low is not None and found.estimate.high is not None
    assert 0 < found.estimate.low < 0.25 < found.estimate.high < 1
    assert found.words == "0.25 of 4 traces have another top-1 token within 10 tokens of their first restore"


def test_none_of_four_has_the_exact_bound() -> None:
    found = curve(*({"trace": name, "offset_from_restore": 20, "censored": True} for name in "tuvw"))
    assert (found.estimate.value, found.estimate.low) == (0, 0)
    assert found.estimate.high == pytest.approx(1 - 0.05**0.25)


def test_where_nobody_was_observed_so_long_there_is_no_number() -> None:
    found = curve(
        {"offset_from_restore": 5, "censored": True}, {"trace": "u", "offset_from_restore": 6, "censored": True}
    )
    assert (found.estimate.value, found.estimate.low, found.estimate.high) == (None, None, None)
    assert found.words == "none of 2 traces was observed for 10 tokens after its first restore"


def test_other_kinds_runs_cells_and_branches_without_a_restore_are_no_cases() -> None:
    others = ({"kind": "bits"}, {"experiment": "free"}, {"cell": "other"}, {"offset_from_restore": None})
    assert curve(*FOUR, *others).estimate == curve(*FOUR).estimate
    assert curve(*others).estimate.n == 0


@pytest.mark.parametrize(("high", "reached"), [(0.25, True), (0.5, False), (0.75, False)])
def test_no_share_can_exceed_a_bound_of_1(high: float, reached: bool) -> None:
    found = curve(*FOUR, measures=[measure(flip_traces=estimate(0.1, high))], floor="num", factor=2)
    assert found.bound is not None
    assert found.bound.value == (0.5 if reached else None)
    assert ("no share can exceed the bound" in found.bound.derivation) is not reached


def test_a_constant_of_under_1_is_a_bound() -> None:
    found = curve(*FOUR, bound=0.5)
    assert found.bound is not None and found.bound.value == 0.5


def test_a_run_without_tables_gives_nothing() -> None:
    none: Evidence = evidence([cell()], tables=InMemory())
    assert state_error(none, gate()).estimate.value is None
    assert sum_traces(InMemory()) == {}
