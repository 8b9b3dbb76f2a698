"""A KDA layer over ranks: local results are slices bit for bit, only the sum over ranks may differ, and within its bound."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck.schedule.parallel import Cut, Geometry, fitting_degrees, plan_ranks
from replaycheck.subjects.lab.layers import ColumnShard, linear
from replaycheck.subjects.lab.parallel_layer import LayerAnswer, LayerCase, compare_layer
from replaycheck.subjects.lab.parallel_sum import RowProduct, association_bound, in_order, sum_difference
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.recipe import EXACT, FLA, SGLANG, VLLM, Recipe
from replaycheck_kernels.registry import ours
from tests.schedule.parallel_faults import LOCAL, PlanFault, beta_replicated, sum_backwards
from tests.tensors import no_gradients as no_gradients

EIGHT = Geometry(8, 8, 16, 16)
GROUPED = Geometry(8, 16, 16, 24)
"""16 value heads on 8 key heads, V ≠ K."""
BOUNDARY = (1, 63, 64, 65, 129)


def compare(case: LayerCase, degree: int, recipe: Recipe = SGLANG, fault: PlanFault | None = None) -> LayerAnswer:
    plan = plan_ranks(case.geometry, degree)
    return compare_layer(case, degree, recipe, ours(recipe, "cpu"), fault(plan, case.geometry) if fault else plan)


@pytest.mark.parametrize("form", ["chunk", "recurrent"])
@pytest.mark.parametrize("degree", [2, 4, 8])
@pytest.mark.parametrize("geometry", [EIGHT, GROUPED], ids=["H=HV=8", "H=8,HV=16,V≠K"])
def test_local_results_are_slices_bit_for_bit(geometry: Geometry, degree: int, form: str) -> None:
    found = compare(LayerCase(geometry, BOUNDARY, form), degree)
    assert found.problems == ()
    assert found.sum.of_bound < 1


@st.composite
def cases(draw: st.DrawFn) -> tuple[LayerCase, int]:
    heads = draw(st.sampled_from((2, 3, 4, 6, 8)))
    group, key, value = (draw(st.sampled_from(sizes)) for sizes in ((1, 2, 3), (8, 16), (8, 16, 24)))
    geometry = Geometry(heads, heads * group, key, value)
    lengths = draw(st.lists(st.sampled_from((1, 2, 3, 63, 64, 65, 127, 128, 129)), min_size=1, max_size=3))
    form = draw(st.sampled_from(("chunk", "recurrent")))
    degree = draw(st.sampled_from(fitting_degrees(geometry)))
    return LayerCase(geometry, tuple(lengths), form, draw(st.integers(0, 99))), degree


@settings(max_examples=40)
@given(cases(), st.sampled_from((SGLANG, EXACT, VLLM, FLA)))
def test_any_heads_lengths_and_degree(drawn: tuple[LayerCase, int], recipe: Recipe) -> None:
    case, degree = drawn
    with torch.no_grad():
        found = compare(case, degree, recipe)
    assert found.problems == ()
    assert found.sum.of_bound < 1
    assert degree > 1 or found.sum.before == 0


@pytest.mark.parametrize("fault", LOCAL.values(), ids=LOCAL)
@pytest.mark.parametrize("geometry", [EIGHT, GROUPED], ids=["H=HV=8", "H=8,HV=16,V≠K"])
def test_a_fault_of_a_plan_breaks_slices_and_the_bound(geometry: Geometry, fault: PlanFault) -> None:
    found = compare(LayerCase(geometry, (66,), "chunk"), 2, fault=fault)
    assert found.problems
    assert found.sum.of_bound > 100


def test_a_replicated_beta_spares_the_first_rank() -> None:
    found = compare(LayerCase(EIGHT, (66,), "chunk"), 4, fault=beta_replicated)
    assert {text[:6] for text in found.problems} == {"rank 1", "rank 2", "rank 3"}


@pytest.mark.parametrize(("tensor", "said"), [("kda.b", "b has shape"), ("kda.A_log", "A_log has shape")])
def test_a_tensor_of_all_heads_on_every_rank_is_refused_by_its_shape(tensor: str, said: str) -> None:
    plan = plan_ranks(EIGHT, 2)
    for rank in plan.ranks:
        assert isinstance(rank.cuts, dict)
        rank.cuts[tensor] = None
    with pytest.raises(ValueError, match=said):
        compare_layer(LayerCase(EIGHT, (5,), "chunk"), 2, SGLANG, ours(SGLANG, "cpu"), plan)


def test_the_order_of_four_ranks_changes_bits_within_the_bound_and_that_of_two_none() -> None:
    generator = torch.Generator().manual_seed(3)
    x, weight = torch.randn(64, 128, generator=generator), torch.randn(48, 128, generator=generator)
    product = RowProduct(x, weight)

    def total(degree: int, order: list[int]) -> torch.Tensor:
        parts = [
            linear(*part, Precision.FP32) for part in zip(x.chunk(degree, 1), weight.chunk(degree, 1), strict=True)
        ]
        return in_order(parts, order, Precision.FP32)

    assert torch.equal(total(2, [0, 1]), total(2, [1, 0]))
    right, wrong = total(4, [0, 1, 2, 3]), total(4, [3, 2, 1, 0])
    assert not torch.equal(right, wrong)
    assert bool(((right.double() - wrong.double()).abs() <= association_bound(product.x, product.weight, 4)).all())


def test_parts_are_added_in_fp32_and_rounded_once() -> None:
    generator = torch.Generator().manual_seed(6)
    parts = [torch.randn(64, 48, generator=generator) for _ in range(4)]
    found = in_order(parts, range(4), Precision.BF16)
    assert torch.equal(found, (((parts[0] + parts[1]) + parts[2]) + parts[3]).bfloat16().float())
    assert not torch.equal(found, sum(part.bfloat16().float() for part in parts))


def test_a_sum_in_another_order_shows_in_bits_only() -> None:
    case = LayerCase(GROUPED, (66,), "chunk")
    right, wrong = compare(case, 4, EXACT), compare(case, 4, EXACT, sum_backwards)
    assert right.problems == wrong.problems == ()
    assert right.sum != wrong.sum
    assert 0 < wrong.sum.of_bound < 1


def test_the_bound_holds_against_float64_and_a_lost_part_breaks_it() -> None:
    generator = torch.Generator().manual_seed(4)
    x, weight = torch.randn(9, 96, generator=generator), torch.randn(5, 96, generator=generator)
    parts = [RowProduct(*part) for part in zip(x.chunk(4, 1), weight.chunk(4, 1), strict=True)]
    exact = x.double() @ weight.double().T
    bound = association_bound(x, weight, 4)
    assert bool(((linear(x, weight, Precision.FP32).double() - exact).abs() <= bound).all())
    whole = RowProduct(x, weight)
    assert sum_difference(whole, parts, (0, 1, 2, 3), Precision.FP32).of_bound < 1
    assert sum_difference(whole, parts, (0, 1, 2), Precision.FP32).of_bound > 1000
    assert sum_difference(whole, parts, (0, 1, 2, 3), Precision.BF16).after < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("width", [2, 8, 16, 96, 256])
def test_a_column_shard_has_the_bits_of_the_whole_product(width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(width)
    x, weight = (
        torch.randn(70, 64, generator=generator).to(dtype),
        torch.randn(width, 64, generator=generator).to(dtype),
    )
    precision = Precision.FP64 if dtype is torch.float64 else Precision.FP32
    whole = linear(x, weight, precision)
    for columns in (torch.arange(1), torch.tensor([width - 1, 0]), torch.arange(width // 2, width)):
        kept = torch.zeros_like(weight)
        kept[columns] = weight[columns]
        found = linear(x, ColumnShard(kept, columns), precision)
        assert found.is_contiguous()
        assert torch.equal(found, whole[:, columns])


def test_a_cut_is_taken_in_the_order_of_its_ranges() -> None:
    assert Cut(0, ((4, 6), (0, 1))).indices() == (4, 5, 0)
