"""Sharding plans: who has which head, block by block, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replaycheck.errors import ExitCode, UsageError
from replaycheck.model.folder import SHIPPED_CONFIG
from replaycheck.schedule import parallel_checks
from replaycheck.schedule.parallel import Cut, Geometry, ParallelPlan, fitting_degrees, geometry_of, plan_ranks
from replaycheck.schedule.parallel_checks import GEOMETRIES, check_sharding_plans, problems_of_sharding
from tests.schedule.parallel_faults import LOCAL, PlanFault, sum_backwards

UNEQUAL = Geometry(4, 8, 2, 3, mla_heads=4, mla_key=5, mla_expanded=6, mla_value=2, inner=12)
"""8 value heads on 4 key heads, V ≠ K."""


def test_conv_and_qkv_are_cut_block_by_block() -> None:
    """q, k of 4 · 2 channels and v of 8 · 3: rank 1 of 2 has key heads 2, 3 and value heads 4 to 7."""
    rank = plan_ranks(UNEQUAL, 2).ranks[1]
    assert (rank.key_heads, rank.value_heads) == ((2, 4), (4, 8))
    blocks = ((4, 8), (12, 16), (28, 40))
    assert rank.cuts["kda.qkv"] == rank.cuts["kda.conv"] == Cut(0, blocks)
    assert rank.cuts["state.conv"] == Cut(2, blocks)
    assert Cut(0, blocks).indices() == (4, 5, 6, 7, 12, 13, 14, 15, *range(28, 40))


def test_the_small_input_of_vllm_55208_is_cut_into_its_groups() -> None:
    """Conv channels 4 + 4 + 8: a contiguous cut would give rank 0 q and k, and rank 1 v."""
    ranks = plan_ranks(Geometry(2, 4, 2, 2), 2).ranks
    assert [rank.cuts["state.conv"] for rank in ranks] == [
        Cut(2, ((0, 2), (4, 6), (8, 12))),
        Cut(2, ((2, 4), (6, 8), (12, 16))),
    ]


def test_each_other_tensor_is_cut_as_its_heads_or_is_on_every_rank() -> None:
    cuts = plan_ranks(UNEQUAL, 4).ranks[3].cuts
    expected = {
        "kda.f_b": Cut(0, ((12, 16),)),
        "kda.g_b": Cut(0, ((18, 24),)),
        "kda.b": Cut(0, ((6, 8),)),
        "kda.A_log": Cut(0, ((6, 8),)),
        "kda.dt_bias": Cut(0, ((6, 8),)),
        "kda.o": Cut(1, ((18, 24),)),
        "mla.q": Cut(0, ((15, 20),)),
        "mla.kv_b": Cut(0, ((18, 24),)),
        "mla.o": Cut(1, ((6, 8),)),
        "mlp.gate": Cut(0, ((9, 12),)),
        "mlp.up": Cut(0, ((9, 12),)),
        "mlp.down": Cut(1, ((9, 12),)),
        "state.temporal": Cut(1, ((6, 8),)),
    }
    assert {name: cut for name, cut in cuts.items() if cut and name not in ("kda.qkv", "kda.conv", "state.conv")} == (
        expected
    )
    assert {name for name, cut in cuts.items() if cut is None} == {
        "kda.f_a", "kda.g_a", "kda.o_norm", "mla.kv_a", "mla.kv_norm",
    }  # fmt: skip


def test_one_rank_has_everything_in_its_own_order() -> None:
    (rank,) = plan_ranks(UNEQUAL, 1).ranks
    for name, cut in rank.cuts.items():
        if cut:
            assert cut.indices() == tuple(range(len(cut.indices()))), name


@pytest.mark.parametrize("name", GEOMETRIES)
def test_plans_agree_with_the_oracle_of_names(name: str) -> None:
    for degree in fitting_degrees(GEOMETRIES[name]):
        plan = plan_ranks(GEOMETRIES[name], degree)
        assert problems_of_sharding(plan, GEOMETRIES[name]) == []
        assert plan.order == tuple(range(degree))


@pytest.mark.parametrize("fault", LOCAL.values(), ids=LOCAL)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_oracle_names_what_a_fault_moved(name: str, fault: PlanFault) -> None:
    geometry = GEOMETRIES[name]
    for degree in fitting_degrees(geometry)[1:]:
        problems = problems_of_sharding(fault(plan_ranks(geometry, degree), geometry), geometry)
        assert problems, degree
        assert all(text.startswith("rank ") and "is needed" in text for text in problems)


def test_a_problem_says_rank_tensor_element_and_what_is_needed() -> None:
    geometry = GEOMETRIES["conv of 4 + 4 + 8"]
    wrong = LOCAL["conv_state_contiguous"](plan_ranks(geometry, 2), geometry)
    assert problems_of_sharding(wrong, geometry) == [
        "rank 0: element 2 of state.conv is q of head 1, channel 0; k of head 0, channel 0 is needed",
        "rank 1: element 0 of state.conv is v of head 0, channel 0; q of head 1, channel 0 is needed",
    ]


def test_the_oracle_sees_order_owners_groups_and_replicas() -> None:
    plan = plan_ranks(UNEQUAL, 2)
    first, second = plan.ranks

    def problems(**changes: Any) -> str:
        return " / ".join(problems_of_sharding(replace(plan, ranks=(first, replace(second, **changes))), UNEQUAL))

    assert "order (1, 0)" in problems_of_sharding(sum_backwards(plan, UNEQUAL), UNEQUAL)[0]
    assert "value_heads [0, 1, 2, 3, 0, 1, 2, 3] of the ranks" in problems(value_heads=(0, 4))
    assert "rank 1: value head 0 reads key head 0 of another rank" in problems(value_heads=(0, 4))
    assert "rank 1: value head 3 reads key head 1 of another rank" in problems(value_heads=(3, 8))
    assert "inner [0, 1, 2, 3, 4, 5, 6, 7, 8] of the ranks aren't 0 to 11, each once" in problems(inner=(6, 9))
    assert "rank 1: kda.f_a must be on every rank" in problems(cuts={**second.cuts, "kda.f_a": Cut(0, ((0, 1),))})
    assert "rank 1: kda.b must be cut by head" in problems(cuts={**second.cuts, "kda.b": None})
    assert "kda.A_log has 3 elements; 4 are needed" in problems(cuts={**second.cuts, "kda.A_log": Cut(0, ((4, 7),))})


def test_rows_for_the_probe_are_exact() -> None:
    rows = list(check_sharding_plans())
    assert [row.name for row in rows] == [f"sharding: {name}" for name in GEOMETRIES]
    assert all(row.exact for row in rows)
    assert rows[1].sentence == "at degrees 1, 2, 4, 8 each rank has the parts of its heads, and no other"


def test_a_row_for_the_probe_names_the_first_degree_that_is_cut_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(geometry: Geometry, degree: int) -> ParallelPlan:
        return LOCAL["conv_state_contiguous"](plan_ranks(geometry, degree), geometry)

    monkeypatch.setattr(parallel_checks, "plan_ranks", wrong)
    rows = {row.name: row for row in check_sharding_plans()}
    conv = rows["sharding: conv of 4 + 4 + 8"]
    assert not conv.exact
    assert conv.sentence == (
        "rank 0: element 2 of state.conv is q of head 1, channel 0; k of head 0, channel 0 is needed"
    )
    assert conv.values == {"degree": 2}  # one rank has everything, whatever the ranges


def test_the_geometry_of_a_checkpoint_has_its_widths_and_no_mla_heads_without_mla_layers() -> None:
    found = geometry_of(SHIPPED_CONFIG)
    assert found.mla_expanded == SHIPPED_CONFIG.qk_nope_head_dim + SHIPPED_CONFIG.v_head_dim
    assert (found.mla_key, found.mla_value) == (SHIPPED_CONFIG.qk_head_dim, SHIPPED_CONFIG.v_head_dim)
    kda_alone = replace(SHIPPED_CONFIG, layer_kinds=("kda",) * SHIPPED_CONFIG.num_layers)
    assert geometry_of(kda_alone).mla_heads == 0
    assert "MLA heads" not in geometry_of(kda_alone).counts()


def test_a_degree_that_does_not_divide_is_refused_with_those_that_do() -> None:
    shipped = geometry_of(SHIPPED_CONFIG)
    assert fitting_degrees(shipped) == (1, 2)
    with pytest.raises(UsageError) as refused:
        plan_ranks(shipped, 4)
    assert refused.value.exit_code is ExitCode.USAGE
    assert str(refused.value) == (
        "tensor_parallel = 4 doesn't divide the model (2 KDA heads, 2 KDA value heads, 2 MLA heads, 512 MLP channels); "
        "degrees that fit: 1, 2"
    )
    assert fitting_degrees(replace(shipped, mla_heads=0, key_heads=6, value_heads=12, inner=0)) == (1, 2, 3, 6)
    with pytest.raises(UsageError, match="degrees that fit: 1, 2, 4"):
        plan_ranks(UNEQUAL, 8)
    with pytest.raises(UsageError, match="tensor_parallel = 0 doesn't divide"):
        plan_ranks(UNEQUAL, 0)
