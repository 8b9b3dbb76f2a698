"""Departures from a claimed recipe are found at the intermediate where they begin, and open choices are told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from replaycheck_kernels.claims import Compared, Departure, allowed_share, departures, first_departure, fits, hypotheses
from replaycheck_kernels.intermediates import intermediates
from replaycheck_kernels.precision import Precision, Rounding
from replaycheck_kernels.providers import ModelKind
from replaycheck_kernels.providers.interpreted import case
from replaycheck_kernels.recipe import EXACT, SGLANG, SGLANG_GDN, Recipe
from replaycheck_kernels.reordered import evaluated

INPUTS, INITIAL = case(ModelKind.KDA, (70, 64, 33), 32, 24)


def exposed(recipe: Recipe) -> dict[str, torch.Tensor]:
    return intermediates(INPUTS, INITIAL, recipe)


def judged(found: dict[str, torch.Tensor]) -> list[Departure]:
    return departures(Compared(found, INPUTS, INITIAL, SGLANG))


def first(recipe: Recipe) -> str | None:
    found = first_departure(judged(exposed(recipe)))
    return found and found.name


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"qk_norm": Precision.FP32}, "q"),
        ({"beta": Precision.BF16}, "beta"),
        ({"kk_matrix": Precision.BF16}, "kk"),
        ({"qk_matrix": Precision.FP32}, "qk"),
        ({"inverse": Precision.FP32}, "inverse"),
        ({"beta_v": Precision.FP32}, "u"),
        ({"state_operand": Precision.FP32}, "o"),  # half a unit of each element of v_new, which is no departure
        ({"decay_cumsum": Precision.BF16}, "G"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_first_departure_is_where_the_rounding_differs(changed: dict[str, Precision], name: str) -> None:
    assert first(replace(SGLANG, **changed)) == name  # type: ignore[arg-type]


def test_a_kernel_that_does_what_it_claims_departs_nowhere_in_another_order() -> None:
    assert first(SGLANG) is None
    with evaluated("hardware"):
        other = exposed(SGLANG)
    found = judged(other)
    assert first_departure(found) is None and any(each.found > 0 for each in found)


def test_right_of_the_diagonal_anything_may_lie_and_on_it_no_nan() -> None:
    spoiled = exposed(SGLANG)
    spoiled["qk"] = spoiled["qk"].clone()
    spoiled["qk"][0, :, 1:] = torch.nan
    assert first_departure(judged(spoiled)) is None
    spoiled["qk"][5, :, 5] = torch.nan
    departed = first_departure(judged(spoiled))
    assert departed is not None and (departed.name, departed.found) == ("qk", 1.0)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (replace(SGLANG, tf32_rounding=Rounding.NEAREST), "tf32 operands rounded, merges from the left"),
        (replace(SGLANG, merge_first="right"), "tf32 operands cut, merges from the right"),
        (SGLANG, "tf32 operands cut, merges from the left"),
    ],
)
def test_open_choices_are_told_apart(recipe: Recipe, words: str) -> None:
    tried = fits([Compared(exposed(recipe), INPUTS, INITIAL, SGLANG)], "chunk")
    assert len(tried) == 6 and min(tried, key=tried.__getitem__) == words and tried[words] == 0
    assert all(share > 0.001 for name, share in tried.items() if name != words)


@pytest.mark.parametrize("how", Rounding)
def test_the_recipe_as_declared_comes_first(how: Rounding) -> None:
    recipe = replace(SGLANG, tf32_rounding=how)
    assert hypotheses(recipe, "chunk")[0].recipe == recipe


def test_choices_are_only_where_there_is_something_to_choose() -> None:
    assert [each.words for each in hypotheses(EXACT, "chunk")] == ["merges from the left", "merges from the right"]
    assert [each.words for each in hypotheses(SGLANG, "recurrent")] == [""]


def test_the_recurrent_form_has_outputs_and_states() -> None:
    found = departures(Compared({"o": torch.zeros_like(INPUTS.v)}, INPUTS, INITIAL, SGLANG, "recurrent"))
    assert [(each.name, each.departs) for each in found] == [("o", True)]


def test_one_decay_a_head_is_compared_too() -> None:
    x, initial = case(ModelKind.GDN, (70,), 32, 24)
    found = intermediates(x, initial, SGLANG_GDN)
    found["G"] = found["G"][..., 0]  # as the kernels return it
    assert first_departure(departures(Compared(found, x, initial, SGLANG_GDN))) is None


def test_the_allowed_share_is_one_row_at_least_and_a_multiple_of_what_is_predicted() -> None:
    assert allowed_share(0.0, 12800, 128) == pytest.approx(0.03)
    assert allowed_share(0.1, 10**9, 128) == pytest.approx(5**0.5 * 0.1, rel=1e-2)
    assert allowed_share(0.9, 1000, 10) == 1.0
