"""Exposed intermediates against their formulas in float64, and the comparison in units in the last place."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.contract import KdaInputs, SnapshotSource
from replaycheck_kernels.intermediates import NAMES, compare_intermediate, declared, intermediates
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.precision import Precision, round_to
from replaycheck_kernels.recipe import EXACT, FLA, SGLANG, SGLANG_GDN, VLLM, Recipe
from tests.kernels.cases import (
    BOUNDED,
    GDN,
    GROUPED_GDN,
    GROUPED_KDA,
    KDA,
    Layer,
    random_inputs,
    random_states,
    relative,
    tap,
)

BF16, FP32 = Precision.BF16, Precision.FP32
CASES = pytest.mark.parametrize(
    ("recipe", "layer"),
    [(EXACT, KDA), (SGLANG, BOUNDED), (VLLM, GROUPED_KDA), (FLA, GROUPED_GDN), (SGLANG_GDN, GDN)],
    ids=lambda value: value.name,
)


def found(
    recipe: Recipe, layer: Layer, lengths: tuple[int, ...] = (70, 17)
) -> tuple[KdaInputs, Tensor, dict[str, Tensor]]:
    x = random_inputs(lengths, recipe=recipe, layer=layer)
    initial = random_states(len(lengths), heads=layer.value_heads)
    return x, initial, intermediates(x, initial, recipe)


@CASES
def test_they_have_the_names_and_the_layout_that_is_promised(recipe: Recipe, layer: Layer) -> None:
    x, _, parts = found(recipe, layer)
    N, H, HV, K, V, C = 87, layer.heads, layer.value_heads, 32, 48, 64
    assert tuple(parts) == NAMES
    shapes = {name: tuple(tensor.shape) for name, tensor in parts.items()}
    assert shapes == {
        **dict.fromkeys(("q", "k"), (N, H, K)),
        "G": (N, HV, 1 if x.per_head else K),
        "beta": (N, HV),
        **dict.fromkeys(("kk", "qk", "inverse"), (N, HV, C)),
        **dict.fromkeys(("u", "v_new", "o"), (N, HV, V)),
        **dict.fromkeys(("w", "k_decayed", "q_decayed"), (N, HV, K)),
        "h": (3, HV, V, K),
        "final": (2, HV, V, K),
    }


@CASES
def test_they_are_what_the_kernel_computes_with(recipe: Recipe, layer: Layer) -> None:
    x, initial, parts = found(recipe, layer)
    rows = [tap(c, SnapshotSource.CHUNK_STATE, r) for r, c in ((0, 0), (0, 1), (1, 0))]
    output = CHUNK_EMULATOR(x, initial, rows, recipe)
    assert torch.equal(parts["o"], output.o)
    assert torch.equal(parts["final"], output.final)
    assert torch.equal(parts["h"], output.snapshots)


@CASES
def test_each_holds_numbers_of_its_declared_precision(recipe: Recipe, layer: Layer) -> None:
    x, _, parts = found(recipe, layer)
    for name, tensor in parts.items():
        assert torch.equal(tensor, round_to(tensor, declared(name, x, recipe))), name


@pytest.mark.parametrize("layer", [BOUNDED, GROUPED_KDA, GROUPED_GDN], ids=lambda layer: layer.name)
def test_they_are_their_formulas_in_float64(layer: Layer) -> None:
    """The first chunk of one sequence: products of the exposed parts give the next ones, and the last is the oracle's."""
    x, initial, parts = found(EXACT, layer, (40,))
    p = {name: tensor.double() for name, tensor in parts.items()}
    q, k = (x.to_value_heads(p[name]).transpose(0, 1) for name in ("q", "k"))
    G, beta, v, S = p["G"].transpose(0, 1), p["beta"].T[..., None], x.v.double().transpose(0, 1), initial[0].double()
    ratio = torch.exp2(G[:, :, None] - G[:, None])  # [HV, i, j, K or 1]
    kk, qk = ((row[:, :, None] * k[:, None] * ratio).sum(-1) for row in (k, q))
    T = torch.linalg.inv(torch.eye(40) + (beta * kk).tril(-1))
    u, w = T @ (beta * v), T @ (beta * k * torch.exp2(G))
    v_new, scale = u - w @ S.transpose(1, 2), 32**-0.5
    expected = {
        "kk": (beta * kk).tril(-1),
        "qk": qk.tril() * scale,
        "inverse": T,
        "u": u,
        "w": w,
        "k_decayed": k * torch.exp2(G[:, -1:] - G),
        "q_decayed": q * scale * torch.exp2(G),
        "v_new": v_new,
        "o": q * scale * torch.exp2(G) @ S.transpose(1, 2) + qk.tril() * scale @ v_new,
    }
    # G is shared, so only sums over K and C and the roundings of exponents ≤ 2^8 in base 2 are left.
    for name, tensor in expected.items():
        there = p[name].transpose(0, 1)
        there = there[..., :40] if name in ("kk", "qk", "inverse") else there
        assert relative(there, tensor) < 2.0**8 * 2.0**-23, name
    truth = ORACLE_KERNEL(x, initial, (), EXACT)
    assert relative(p["final"], truth.final) < 2.0**8 * 2.0**-23


def first_departure(claimed: Recipe, actual: Recipe, layer: Layer) -> str:
    """The first intermediate in which more than 1 in 1000 elements are beyond 1 ulp."""
    x, initial, parts = found(claimed, layer)
    other = intermediates(x, initial, actual)
    beyond = (
        name for name in NAMES if compare_intermediate(parts[name], other[name], declared(name, x, claimed))[0] > 1e-3
    )
    return next(beyond, "none")


@pytest.mark.parametrize(
    ("change", "departs"),
    [
        ({"beta_site": "nowhere"}, "beta"),
        ({"decay_cumsum": BF16}, "G"),
        ({"qk_matrix": Precision.FP16}, "o"),  # within half an ulp of the bf16 store, but not what o is computed from
        ({"kk_matrix": BF16}, "kk"),
        ({"diagonal_operand": BF16}, "kk"),
        ({"norm": "rsqrt"}, "none"),
        ({"q_decayed": Precision.FP16, "scale_on": "output"}, "q_decayed"),
    ],
    ids=["beta-raw", "bf16-cumsum", "finer-store", "bf16-kk", "bf16-diagonal", "an-ulp-of-the-norm", "unscaled-q"],
)
def test_a_false_claim_shows_at_the_intermediate_where_it_departs(change: dict[str, object], departs: str) -> None:
    assert first_departure(SGLANG, replace(SGLANG, **change), BOUNDED) == departs  # type: ignore[arg-type]


def test_an_unknown_intermediate_is_refused_with_the_names() -> None:
    with pytest.raises(ValueError, match="unknown intermediate 'Aqk'; choose one of q, k, G, beta, kk, qk, inverse"):
        declared("Aqk", random_inputs((5,)), SGLANG)


def test_precisions_are_declared_where_the_value_is_rounded_last() -> None:
    kda, gdn = random_inputs((5,)), random_inputs((5,), layer=GDN)
    assert declared("final", kda, SGLANG) is FP32
    assert declared("beta", kda, SGLANG) is FP32
    assert declared("beta", kda, replace(SGLANG, beta_site="outside")) is BF16
    assert declared("k_decayed", gdn, replace(FLA, k_decayed=FP32)) is BF16
    assert declared("k_decayed", kda, replace(FLA, k_decayed=FP32)) is FP32


def test_a_comparison_counts_units_in_the_last_place() -> None:
    ulp = 2.0**-7
    claimed = torch.tensor([[1.0, 1.0 + ulp, 1.0], [-4.0, 0.0, 1.0]])
    other = torch.tensor([[1.0, 1.0, 1.0 + 3 * ulp], [-4.0 - 8 * ulp, 0.0, 1.0]])
    share, largest, worst = compare_intermediate(claimed, other, BF16)
    assert (share, largest, worst) == (2 / 6, 3.0, (0, 2))
    assert compare_intermediate(claimed, other, FP32).largest == 3 * 2**16
    assert compare_intermediate(other, claimed, BF16) == (share, largest, worst)


@pytest.mark.parametrize(
    ("claimed", "other", "units"),
    [
        (float("nan"), float("nan"), 0.0),
        (float("inf"), float("inf"), 0.0),
        (float("nan"), 1.0, float("inf")),
        (float("inf"), float("-inf"), float("inf")),
        (1.0, float("inf"), float("inf")),
        (-0.0, 0.0, 0.0),
        (2.0**-133, 0.0, 1.0),
        (1.0, -1.0, 2.0**8),
    ],
    ids=str,
)
def test_special_values_compare_as_numbers_do(claimed: float, other: float, units: float) -> None:
    assert compare_intermediate(torch.tensor([claimed]), torch.tensor([other]), BF16).largest == units


@pytest.mark.parametrize("shape", [(2, 3), (0,)], ids=str)
def test_shapes_that_differ_or_are_empty_cannot_be_compared(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="can't compare shapes"):
        compare_intermediate(torch.zeros(shape), torch.zeros(3 if len(shape) > 1 else 0), BF16)
