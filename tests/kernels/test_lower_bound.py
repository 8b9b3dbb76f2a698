"""The decay with a lower bound, g = L·sigmoid(exp(A_log)·(a + dt_bias)), in every kernel, and its diagonal references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from replaycheck_kernels.activation import log_decay
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, KdaOutput, StateKernel
from replaycheck_kernels.error_model import decay_span
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.recipe import EXACT, FLA, SGLANG, SGLANG_SMALL_GRID, VLLM, Recipe
from tests.kernels import cases
from tests.kernels.cases import BOUNDED, FAST, KDA, name_of, only, random_inputs, random_states, ratio

KERNELS = pytest.mark.parametrize("kernel", FAST, ids=name_of)


@pytest.mark.parametrize("bound", [0.0, 0.5, -5.01, -8.0, float("nan"), float("-inf")])
def test_a_lower_bound_outside_minus_five_to_zero_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match=r"lower bound of the decay is .*; it must be from -5 to under 0"):
        replace(random_inputs((5,)), lower_bound=bound)


@pytest.mark.parametrize("bound", [-5.0, -1e-3])
def test_bounds_at_the_edges_are_taken(bound: float) -> None:
    assert replace(random_inputs((5,)), lower_bound=bound).lower_bound == bound


def test_the_decay_is_the_formula_and_stays_inside_its_bound() -> None:
    a = torch.linspace(-40, 40, 81)[:, None, None].expand(-1, 2, 3)
    A_log, dt_bias = torch.tensor([0.0, 1.5]), torch.tensor([[0.0, 1.0, -2.0], [0.5, -0.5, 3.0]])
    found = log_decay(a, A_log, dt_bias, EXACT, -2.5)
    y = np.exp(A_log.double().numpy())[None, :, None] * (a + dt_bias).double().numpy()
    # |y| ≤ 200 carries two fp32 roundings, which are |y|·2^-22 relative in the sigmoid's tail; under 2^-126 fp32 ends.
    np.testing.assert_allclose(found.numpy(), -2.5 / (1 + np.exp(-y)), rtol=200 * 2.0**-22, atol=2.0**-126)
    assert ((found >= -2.5) & (found <= 0)).all()
    assert float(found[-1].max()) == -2.5


def test_a_bounded_decay_outside_the_kernel_passes_through_the_activation_dtype() -> None:
    x = random_inputs((20,), layer=BOUNDED)
    outside = replace(EXACT, decay_site="outside", activation=Precision.BF16)
    plain, rounded = (log_decay(x.a, x.A_log, x.dt_bias, recipe, x.lower_bound) for recipe in (EXACT, outside))
    assert torch.equal(rounded, plain.bfloat16().float()) and not torch.equal(rounded, plain)


@KERNELS
@pytest.mark.parametrize("layer", [BOUNDED, KDA], ids=["softplus-for-bound", "bound-for-softplus"])
def test_the_other_formula_exceeds_the_prediction(layer: cases.Layer, kernel: StateKernel) -> None:
    def swapped(x: KdaInputs, initial: Tensor, rows: object, recipe: Recipe) -> KdaOutput:
        return kernel.forward(replace(x, lower_bound=-5.0 if x.lower_bound is None else None), initial, (), recipe)

    x = random_inputs((70, 5), recipe=SGLANG, layer=layer)
    assert ratio(replace(kernel, forward=swapped), x, random_states(2), SGLANG, SGLANG) > 5


@KERNELS
@pytest.mark.parametrize("recipe", [EXACT, SGLANG, SGLANG_SMALL_GRID, VLLM, FLA], ids=lambda recipe: recipe.name)
def test_cumulative_decays_that_overflow_naively_stay_finite_and_right(kernel: StateKernel, recipe: Recipe) -> None:
    """64 tokens of −5: e^320, where fp32 ends at e^88.7."""
    x = random_inputs((130,), regime="strong", recipe=recipe, layer=BOUNDED)
    assert decay_span(x, recipe) > 300
    assert ratio(kernel, x, random_states(1), recipe, recipe) <= 1


@pytest.mark.parametrize("layer", cases.LAYERS, ids=lambda layer: layer.name)
def test_the_span_in_the_prediction_is_the_largest_decay_of_a_chunk(layer: cases.Layer) -> None:
    x = random_inputs((130, 20), layer=layer)
    assert decay_span(x, EXACT) == cases.decay_span(x, EXACT)


def outputs(recipe: Recipe, layer: cases.Layer) -> Tensor:
    return CHUNK_EMULATOR(random_inputs((130,), layer=layer), random_states(1), (), recipe).o


def test_each_decay_has_its_own_diagonal() -> None:
    safe, plain = replace(EXACT, safe_diagonal="first"), replace(EXACT, diagonal="first")
    assert torch.equal(outputs(safe, KDA), outputs(EXACT, KDA))
    assert torch.equal(outputs(plain, BOUNDED), outputs(EXACT, BOUNDED))
    assert not torch.equal(outputs(safe, BOUNDED), outputs(EXACT, BOUNDED))
    assert not torch.equal(outputs(plain, KDA), outputs(EXACT, KDA))


def with_other_future(x: KdaInputs, seen: int) -> KdaInputs:
    """The same first ``seen`` tokens; other decays after them."""
    return replace(x, a=torch.cat([x.a[:seen], -x.a[seen:] + 1]))


def leaks(recipe: Recipe, seen: int) -> tuple[bool, bool]:
    """Whether the first ``seen`` outputs of 40 depend on later decays, and on the length, under a lower bound."""
    x, initial = random_inputs((40,), recipe=recipe, layer=BOUNDED), random_states(1)
    whole, other, cut = (
        CHUNK_EMULATOR(y, initial, (), recipe).o[:seen] for y in (x, with_other_future(x, seen), only(x, 0, seen))
    )
    return not torch.equal(whole, other), not torch.equal(whole, cut)


# With bf16 stores most leaks of tf32 size are rounded away, so the operands are shown alone.
def tf32(recipe: Recipe) -> Recipe:
    return replace(EXACT, diagonal_operand=Precision.TF32, safe_diagonal=recipe.safe_diagonal)


@pytest.mark.parametrize("seen", [5, 8, 20, 24])
@pytest.mark.parametrize("recipe", [SGLANG, VLLM], ids=lambda recipe: recipe.name)
def test_the_middle_reference_of_sglang_and_vllm_lets_the_future_leak(recipe: Recipe, seen: int) -> None:
    """Tokens 0 to 7 of a sub-chunk are scaled by the decay of token 8, or of the last one there is."""
    assert leaks(tf32(recipe), seen) == (True, True)


@pytest.mark.parametrize("seen", [9, 16, 25])
def test_the_middle_reference_leaks_nothing_once_its_token_is_past(seen: int) -> None:
    assert leaks(tf32(SGLANG), seen) == (False, False)


@pytest.mark.parametrize("seen", [5, 8, 20, 24])
@pytest.mark.parametrize("recipe", [FLA, SGLANG_SMALL_GRID], ids=lambda recipe: recipe.name)
def test_the_first_token_and_the_shifted_one_leak_nothing(recipe: Recipe, seen: int) -> None:
    assert leaks(tf32(recipe), seen) == (False, False)
    assert leaks(recipe, seen) == (False, False)


def test_without_rounding_the_operands_the_middle_reference_still_moves_fp32_bits_only() -> None:
    """In exact arithmetic the reference cancels: what leaks is rounding."""
    x, initial = random_inputs((40,), layer=BOUNDED), random_states(1)
    recipe = replace(EXACT, safe_diagonal="middle")
    here, there = (CHUNK_EMULATOR(y, initial, (), recipe).o[:20] for y in (x, only(x, 0, 20)))
    assert cases.relative(here, there) < 2 * cases.predict_for(x, EXACT, "chunk").output
