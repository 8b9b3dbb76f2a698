"""The tiny model over two ranks in one process: layer by layer against the whole, and as a network of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from replaycheck.errors import InternalError, UsageError
from replaycheck.schedule.parallel import ParallelPlan, geometry_of
from replaycheck.subjects.lab.invariance import check_invariance
from replaycheck.subjects.lab.network import Network, RowInput, Tap
from replaycheck.subjects.lab.parallel import ParallelNetwork, plan_for
from replaycheck.subjects.lab.parallel_compare import compare_with_whole, same_bytes
from replaycheck.subjects.lab.parallel_shard import join_states, split_state
from replaycheck.subjects.lab.state import SequenceState
from replaycheck_kernels.recipe import EXACT, SGLANG, VLLM, Recipe
from replaycheck_kernels.registry import ours
from tests.schedule.parallel_faults import LOCAL, PlanFault, conv_state_contiguous
from tests.tensors import no_gradients as no_gradients

TOKENS = tuple((11 * i * i + 5 * i) % 128 for i in range(150))


@pytest.fixture(scope="module")
def ranks(model: Path) -> ParallelNetwork:
    return over_ranks(model, SGLANG)


def over_ranks(model: Path, recipe: Recipe, plan: ParallelPlan | None = None) -> ParallelNetwork:
    return ParallelNetwork(model, recipe, ours(recipe, "cpu"), plan=plan)


def rows_of(whole: Network) -> list[RowInput]:
    """Both forms, batch 4, one row that continues a state, snapshots inside and at the end."""
    empty = whole.empty_state()
    before = without_pages(whole, whole.forward([RowInput(TOKENS[:64], 0, "chunk", empty)])[0].final)
    return [
        RowInput(TOKENS[:130], 0, "chunk", empty, (Tap(1, "accumulator", 64, 64), Tap(0, "final", 130, 130))),
        RowInput(TOKENS[64:129], 64, "chunk", before),
        RowInput(TOKENS[3:4], 0, "recurrent", empty),
        RowInput(TOKENS[64:67], 64, "recurrent", before),
    ]


def without_pages(network: Network, state: SequenceState) -> SequenceState:
    """Pages belong to one network; a state without them is one whose attention has seen nothing."""
    return replace(state, pages=network.empty_state().pages)


@pytest.mark.parametrize("recipe", [SGLANG, EXACT, VLLM], ids=lambda recipe: recipe.name)
def test_on_equal_layer_inputs_states_are_slices_and_sums_are_within_their_bound(model: Path, recipe: Recipe) -> None:
    whole = Network(model, recipe, ours(recipe, "cpu"))
    found = compare_with_whole(whole, over_ranks(model, recipe), rows_of(whole))
    assert found.problems == ()
    assert len(found.sums) == 2 * whole.config.num_layers
    assert max(each.of_bound for each in found.sums) < 1


@pytest.mark.parametrize("fault", LOCAL.values(), ids=LOCAL)
def test_a_fault_of_a_plan_is_named_with_rank_and_layer(model: Path, sglang: Network, fault: PlanFault) -> None:
    plan = fault(plan_for(model, 2), geometry_of(sglang.config))
    found = compare_with_whole(sglang, over_ranks(model, SGLANG, plan), rows_of(sglang))
    assert any("state of recurrent layer 0 isn't the slice of the whole" in text for text in found.problems)
    assert found.problems[0].startswith("rank ")


def test_the_whole_model_differs_by_rounding_only_and_the_first_layers_state_not_at_all(model: Path) -> None:
    one, many = Network(model, EXACT, ours(EXACT, "cpu")), over_ranks(model, EXACT)
    row = RowInput(TOKENS, 0, "chunk", one.empty_state())
    whole, found = one.forward([row])[0], many.forward([row])[0]
    assert same_bytes(whole.final.temporal[0], found.final.temporal[0])
    assert same_bytes(whole.final.conv[0], found.final.conv[0])
    assert not torch.equal(whole.logits, found.logits)
    # fp32 through four layers, as between fp32 and float64: some tens of roundings.
    assert float((whole.logits - found.logits).norm() / whole.logits.norm()) < 100 * 2.0**-24


def test_a_row_over_ranks_has_the_same_bits_in_every_pack(ranks: ParallelNetwork) -> None:
    check_invariance(ranks)


def test_one_rank_is_the_whole_network_bit_for_bit(model: Path, sglang: Network) -> None:
    alone = over_ranks(model, SGLANG, plan_for(model, 1))
    for whole, found in zip(sglang.forward(rows_of(sglang)), alone.forward(rows_of(sglang)), strict=True):
        assert torch.equal(whole.logits, found.logits)
        assert same_bytes(whole.final.temporal, found.final.temporal)
        assert same_bytes(whole.final.conv, found.final.conv)


def some_state(network: Network) -> SequenceState:
    generator = torch.Generator().manual_seed(5)
    empty = network.empty_state()
    conv, temporal = (torch.randn(part.shape, generator=generator) for part in (empty.conv, empty.temporal))
    return replace(empty, conv=conv, temporal=temporal, identity=b"some")


def test_a_slot_is_the_slots_of_its_ranks_joined(ranks: ParallelNetwork) -> None:
    """Each rank has its own heads, byte for byte; conv in q | k | v order of its own."""
    whole, plans = some_state(ranks), ranks.plan.ranks
    parts = [split_state(whole, plan) for plan in plans]
    blocks = whole.conv.chunk(3, 2)
    for rank, part in enumerate(parts):
        assert same_bytes(part.temporal, whole.temporal[:, rank : rank + 1])
        assert same_bytes(part.conv, torch.cat([block.chunk(2, 2)[rank] for block in blocks], 2))
        assert [tuple(x.shape) for x in (part.conv, part.temporal)] == [
            tuple(x.shape) for x in (ranks.ranks[rank].empty_state().conv, ranks.ranks[rank].empty_state().temporal)
        ]
    joined = join_states(parts, plans, whole)
    assert same_bytes(joined.conv, whole.conv)
    assert same_bytes(joined.temporal, whole.temporal)
    assert joined.identity == b"some"


def test_a_state_of_one_rank_continues_on_two_and_a_contiguous_cut_of_it_does_not(
    model: Path, sglang: Network, ranks: ParallelNetwork
) -> None:
    """vLLM issue 55208: prefill at one degree, decode at another; the temporal state is right and the conv state isn't."""
    before = without_pages(sglang, sglang.forward([RowInput(TOKENS[:70], 0, "chunk", sglang.empty_state())])[0].final)
    wrong = over_ranks(model, SGLANG, conv_state_contiguous(ranks.plan, geometry_of(sglang.config)))
    row = RowInput(TOKENS[70:71], 70, "recurrent", before)
    good, bad = (compare_with_whole(sglang, each, [row]) for each in (ranks, wrong))
    assert good.problems == ()
    assert bad.problems[0] == "rank 0, row 0: the conv state of recurrent layer 0 isn't the slice of the whole"


def test_a_degree_that_does_not_divide_is_refused_before_weights_are_read(model: Path) -> None:
    with pytest.raises(UsageError, match=r"tensor_parallel = 3 doesn't divide .*; degrees that fit: 1, 2"):
        plan_for(model, 3)


def test_pages_of_another_network_are_refused(sglang: Network, ranks: ParallelNetwork) -> None:
    after = sglang.forward([RowInput(TOKENS[:5], 0, "chunk", sglang.empty_state())])[0].final
    with pytest.raises(InternalError, match="5 attention pages"):
        compare_with_whole(sglang, ranks, [RowInput(TOKENS[5:6], 5, "recurrent", after)])


def test_a_reset_forgets_the_pages_of_every_rank(ranks: ParallelNetwork) -> None:
    row = RowInput(TOKENS[:5], 0, "chunk", ranks.empty_state())
    first = ranks.forward([row])[0]
    ranks.reset()
    again = ranks.forward([row])[0]
    assert again.final.pages.tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(first.logits, again.logits)
