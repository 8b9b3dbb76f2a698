"""Chunk emulator and recurrent kernels against the oracle: every edge length, K ≠ V, mild to strong decay.

The bound is what the recipe predicts (error_model), not a literal; the last tests show that a wrong kernel exceeds it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replaycheck_kernels.chunk import CHUNK_EMULATOR, intra_chunk
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotSource, StateKernel
from replaycheck_kernels.error_model import predict
from replaycheck_kernels.grid import chunk_map
from replaycheck_kernels.intra import inverse
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.recipe import EXACT, ORACLE, SGLANG, Recipe
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from tests.kernels.cases import (
    EDGES,
    FAST,
    RECURRENT,
    REGIMES,
    WIDTHS,
    decay_span,
    name_of,
    random_inputs,
    random_states,
    ratio,
    relative,
    tap,
)


@pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("kernel", FAST, ids=name_of)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("key", "value"), WIDTHS)
def test_error_is_within_what_the_recipe_predicts(
    key: int, value: int, regime: str, kernel: StateKernel, recipe: Recipe
) -> None:
    x = random_inputs(EDGES, key, value, regime, recipe)
    assert ratio(kernel, x, random_states(len(EDGES), key, value), recipe, recipe) <= 1


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(sorted(REGIMES)), st.sampled_from(WIDTHS))
def test_any_lengths_are_within_the_prediction(data: st.DataObject, regime: str, width: tuple[int, int]) -> None:
    lengths = tuple(data.draw(st.lists(st.integers(1, 140), min_size=1, max_size=3)))
    kernel, recipe = data.draw(st.sampled_from(FAST)), data.draw(st.sampled_from([EXACT, SGLANG]))
    seed = data.draw(st.integers(0, 999))
    x = random_inputs(lengths, *width, regime, recipe, seed)
    assert ratio(kernel, x, random_states(len(lengths), *width, seed), recipe, recipe) <= 1


@pytest.mark.parametrize("kernel", FAST, ids=name_of)
def test_beta_without_its_sigmoid_exceeds_the_prediction(kernel: StateKernel) -> None:
    x = random_inputs((70, 5), recipe=SGLANG)
    spoiled = replace(SGLANG, beta_site="nowhere")
    assert ratio(kernel, x, random_states(2), SGLANG, spoiled) > 50


def _swapped(x: KdaInputs) -> KdaInputs:
    return replace(x, q=x.k, k=x.q)


def _shifted(x: KdaInputs) -> KdaInputs:
    return replace(x, a=x.a.roll(1, 0))


@pytest.mark.parametrize("mistake", [_swapped, _shifted], ids=["q-for-k", "decay-one-token-late"])
@pytest.mark.parametrize("kernel", FAST, ids=name_of)
def test_wrong_inputs_exceed_the_prediction(kernel: StateKernel, mistake: object) -> None:
    def wrong(x: KdaInputs, initial: torch.Tensor, rows: object, recipe: Recipe) -> KdaOutput:
        return kernel.forward(mistake(x), initial, (), recipe)  # type: ignore[operator]

    x = random_inputs((70, 5), recipe=SGLANG)
    assert ratio(replace(kernel, forward=wrong), x, random_states(2), SGLANG, SGLANG) > 5


def test_the_prediction_of_exact_is_a_thousand_times_under_that_of_bf16_activations() -> None:
    for form in ("chunk", "recurrent"):
        exact, sglang = predict(EXACT, form, 128, 1.0), predict(SGLANG, form, 128, 1.0)
        assert sglang.output > 300 * exact.output
    assert predict(SGLANG, "chunk", 128, 1.0).state > 1000 * predict(EXACT, "chunk", 128, 1.0).state


def test_chunk_starts_of_the_emulator_are_the_states_of_the_oracle() -> None:
    x, initial = random_inputs((200, 65)), random_states(2)
    rows = [tap(c, sequence=r) for r, chunks in ((0, 4), (1, 2)) for c in range(chunks)]
    found = CHUNK_EMULATOR(x, initial, rows, EXACT).snapshots
    truth = ORACLE_KERNEL(x, initial, rows, EXACT).snapshots
    allowed = predict(EXACT, "chunk", 32, decay_span(x, EXACT)).state
    assert max(relative(*pair) for pair in zip(found, truth, strict=True)) <= allowed
    assert torch.equal(found[0], initial[0])
    assert torch.equal(found[4], initial[1])


@pytest.mark.parametrize("kernel", RECURRENT, ids=name_of)
def test_taps_of_recurrent_kernels_are_the_states_of_the_oracle(kernel: StateKernel) -> None:
    x, initial = random_inputs((200, 65)), random_states(2)
    rows = [tap(3), tap(1, sequence=1), tap(0, SnapshotSource.FINAL, 1)]
    found, truth = kernel(x, initial, rows, EXACT).snapshots, ORACLE_KERNEL(x, initial, rows, EXACT).snapshots
    allowed = predict(EXACT, "recurrent", 32, 0.0).state
    assert max(relative(*pair) for pair in zip(found, truth, strict=True)) <= allowed


def test_both_recurrent_kernels_agree_to_the_order_of_their_sums() -> None:
    x, initial = random_inputs(EDGES), random_states(len(EDGES))
    one, two = (kernel(x, initial, (), EXACT) for kernel in RECURRENT)
    # Each step adds a random walk of at most √K fp32 roundings, and decay forgets old ones.
    assert relative(one.o, two.o) < 32**0.5 * 2.0**-23
    assert relative(one.final, two.final) < 32**0.5 * 2.0**-23


def test_scores_of_a_chunk_are_sums_of_decayed_products() -> None:
    """Aqk[i, j] = K^-½ Σ_k q̂_ik k̂_jk e^(G_ik − G_jk), i ≥ j, in float64 by numpy-like loops."""
    x = random_inputs((40,))
    intra = intra_chunk(x, chunk_map(x, EXACT), EXACT)
    q, k = (v.double() / (v.double().square().sum(-1, keepdim=True) + 1e-6).sqrt() for v in (x.q, x.k))
    y = x.a.double() + x.dt_bias.double()
    G = (-x.A_log.double().exp()[:, None] * torch.nn.functional.softplus(y)).cumsum(0)
    expected = torch.zeros(2, 64, 64, dtype=torch.float64)
    for i in range(40):
        for j in range(i + 1):
            expected[:, i, j] = (q[i] * k[j] * (G[i] - G[j]).exp()).sum(-1) * 32**-0.5
    assert relative(intra.qk[0], expected) < 32**0.5 * 2.0**-23 * max(1.0, float(G.abs().max()))
    assert torch.count_nonzero(intra.qk[0].triu(1)) == 0
    assert torch.count_nonzero(intra.u[0, :, 40:]) == 0, "places without a token write nothing"


def test_the_block_inverse_is_the_inverse() -> None:
    A = torch.randn(3, 2, 64, 64, generator=torch.Generator().manual_seed(2)).tril(-1) * 0.1
    eye = torch.eye(64, dtype=torch.float64)
    expected = torch.linalg.inv(eye + A.double())
    found = inverse(A, EXACT)
    assert relative(found, expected) < 64 * 2.0**-23
    assert torch.equal(found.triu(), torch.eye(64).expand_as(found))
    in_double = inverse(A.double(), ORACLE)
    assert relative(in_double, expected) < 64 * 2.0**-52


def test_the_torch_recurrence_in_float64_is_the_oracle() -> None:
    x, initial = random_inputs((70, 3)), random_states(2).double()
    wide = replace(x, **{name: getattr(x, name).double() for name in ("q", "k", "v", "a", "b", "A_log", "dt_bias")})
    found, truth = RECURRENT_TORCH(wide, initial, (), ORACLE), ORACLE_KERNEL(wide, initial, (), ORACLE)
    allowed = predict(ORACLE, "recurrent", 32, 0.0)
    assert relative(found.o, truth.o) <= allowed.output
    assert relative(found.final, truth.final) <= allowed.state
