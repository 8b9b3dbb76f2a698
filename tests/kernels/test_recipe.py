"""Every field of a recipe does something, where the recipe says and nowhere else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotSource, StateKernel
from replaycheck_kernels.error_model import predict
from replaycheck_kernels.grid import chunk_starts
from replaycheck_kernels.oracle import ORACLE_KERNEL
from replaycheck_kernels.precision import Precision, Rounding
from replaycheck_kernels.recipe import EXACT, ORACLE, PRESETS, SGLANG, Recipe, preset
from replaycheck_kernels.recurrent import RECURRENT_TORCH
from replaycheck_kernels.registry import KERNELS, UNAVAILABLE, ours
from replaycheck_kernels.triton.kernels import RECURRENT_TRITON, available
from tests.kernels.cases import decay_span, name_of, random_inputs, random_states, relative, tap

BF16 = Precision.BF16
CHUNK_POINTS = (
    "qk_norm",
    "decay_cumsum",
    "beta",
    "intra_operand",
    "diagonal_operand",
    "qk_matrix",
    "kk_matrix",
    "inverse_merge",
    "inverse",
    "beta_v",
    "u",
    "beta_k",
    "w",
    "k_decayed",
    "state_operand",
    "v_new",
    "q_scaled",
    "q_decayed",
    "output",
)
#: Where decays multiply products; test_gdn.py shows its effect.
PRODUCT_POINTS = ("v_decayed",)
RECURRENT_POINTS = ("recurrent_qk", "recurrent_beta", "output")
SNAPSHOT_POINTS = ("chunk_state",)
#: Seen by the kernels only where a recipe activates beta or decay outside of them.
OUTSIDE_POINTS = ("activation",)
#: Used by the network round the kernels; tests/lab/test_network.py shows their effect.
NETWORK_POINTS = ("activation", "conv_out", "logits")


def base(point: str = "") -> Recipe:
    """``exact``, with the diagonal form in which the point is used."""
    return replace(EXACT, diagonal="first") if point == "diagonal_operand" else EXACT


def outputs(kernel: StateKernel, recipe: Recipe, regime: str = "mild", starts: tuple[int, ...] = ()) -> KdaOutput:
    x = random_inputs((130, 40), regime=regime, starts=starts)
    return kernel(x, random_states(2), (), recipe)


def noise(kernel: StateKernel, x: KdaInputs) -> float:
    """Relative error that two ``exact`` computations may have between them: each has its predicted error."""
    return 2 * predict(EXACT, kernel.form, x.k.shape[2], decay_span(x, EXACT)).output


def test_every_rounding_point_is_tested_somewhere() -> None:
    kernel = {*CHUNK_POINTS, *PRODUCT_POINTS, *RECURRENT_POINTS, *SNAPSHOT_POINTS}
    tested = kernel.union(OUTSIDE_POINTS, NETWORK_POINTS)
    assert tested == set(EXACT.precisions())


@pytest.mark.parametrize(
    ("kernel", "point"),
    [(CHUNK_EMULATOR, point) for point in CHUNK_POINTS]
    + [(kernel, point) for kernel in (RECURRENT_TORCH, RECURRENT_CPU) for point in RECURRENT_POINTS],
    ids=lambda value: value if isinstance(value, str) else name_of(value),
)
def test_a_rounding_point_changes_what_the_error_model_says_it_changes(kernel: StateKernel, point: str) -> None:
    recipe = replace(base(point), **{point: BF16})
    before, after = outputs(kernel, base(point)), outputs(kernel, recipe)
    allowed = noise(kernel, random_inputs((130, 40), regime="mild"))
    assert relative(after.o, before.o) > allowed
    state_is_touched = predict(recipe, kernel.form, 32, 1.0).state > predict(base(point), kernel.form, 32, 1.0).state
    if state_is_touched:
        assert relative(after.final, before.final) > allowed
    else:
        assert torch.equal(after.final, before.final)


@pytest.mark.parametrize(
    ("kernel", "points"),
    [(CHUNK_EMULATOR, RECURRENT_POINTS[:2]), (RECURRENT_TORCH, CHUNK_POINTS[:-1]), (RECURRENT_CPU, CHUNK_POINTS[:-1])],
    ids=["chunk", "recurrent-torch", "recurrent-cpu"],
)
def test_a_kernel_has_no_rounding_points_of_the_other_form(kernel: StateKernel, points: tuple[str, ...]) -> None:
    recipe = replace(EXACT, **dict.fromkeys((*points, *SNAPSHOT_POINTS, *NETWORK_POINTS), BF16))
    assert torch.equal(outputs(kernel, recipe).o, outputs(kernel, EXACT).o)
    assert torch.equal(outputs(kernel, recipe).final, outputs(kernel, EXACT).final)


def test_the_chunk_state_point_rounds_snapshots_from_it_and_nothing_else() -> None:
    x, initial, recipe = random_inputs((130,)), random_states(1), replace(EXACT, chunk_state=BF16)
    rows = [tap(1), tap(1, SnapshotSource.CHUNK_STATE)]
    plain, rounded = (CHUNK_EMULATOR(x, initial, rows, r) for r in (EXACT, recipe))
    assert torch.equal(plain.o, rounded.o)
    assert torch.equal(plain.snapshots[0], rounded.snapshots[0])
    assert torch.equal(plain.snapshots[1], plain.snapshots[0])
    assert torch.equal(rounded.snapshots[1], rounded.snapshots[0].bfloat16().float())
    assert not torch.equal(rounded.snapshots[1], rounded.snapshots[0])


@pytest.mark.parametrize("kernel", [CHUNK_EMULATOR, RECURRENT_TORCH, RECURRENT_CPU], ids=name_of)
@pytest.mark.parametrize("site", ["beta_site", "decay_site"])
def test_an_activation_outside_the_kernel_passes_through_the_activation_dtype(site: str, kernel: StateKernel) -> None:
    outside = replace(EXACT, **{site: "outside"})
    x = random_inputs((130, 40), regime="mild")
    assert torch.equal(outputs(kernel, outside).o, outputs(kernel, EXACT).o), "fp32 activations lose nothing"
    in_bf16 = outputs(kernel, replace(outside, activation=BF16))
    assert relative(in_bf16.o, outputs(kernel, EXACT).o) > noise(kernel, x)
    assert torch.equal(outputs(kernel, replace(EXACT, activation=BF16)).o, outputs(kernel, EXACT).o)


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (CHUNK_EMULATOR, {"exp_base": "e"}),
        (CHUNK_EMULATOR, {"norm": "rsqrt"}),
        (CHUNK_EMULATOR, {"norm": "reciprocal"}),
        (CHUNK_EMULATOR, {"scale_on": "output"}),
        (CHUNK_EMULATOR, {"merge_first": "right"}),
        (CHUNK_EMULATOR, {"diagonal": "fused"}),
        (CHUNK_EMULATOR, {"diagonal": "shifted"}),
        (CHUNK_EMULATOR, {"diagonal": "shifted", "exp_base": "e"}),
        (CHUNK_EMULATOR, {"diagonal": "first"}),
        (CHUNK_EMULATOR, {"diagonal": "middle"}),
        (CHUNK_EMULATOR, {"diagonal": "first", "exp_base": "e"}),
        (CHUNK_EMULATOR, {"sub_chunk": 32}),
        (CHUNK_EMULATOR, {"chunk": 32}),
        (CHUNK_EMULATOR, {"grid_origin": "absolute"}),
        (RECURRENT_TORCH, {"recurrent_norm": "rsqrt"}),
        (RECURRENT_TORCH, {"recurrent_norm": "reciprocal"}),
        (RECURRENT_CPU, {"recurrent_norm": "rsqrt"}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else name_of(value),
)
def test_a_structural_choice_changes_bits_and_stays_within_fp32_noise(
    kernel: StateKernel, change: dict[str, Any]
) -> None:
    starts = (100, 7)
    plain, changed = outputs(kernel, EXACT, starts=starts), outputs(kernel, replace(EXACT, **change), starts=starts)
    allowed = noise(kernel, random_inputs((130, 40), regime="mild"))
    assert not torch.equal(plain.o, changed.o)
    assert relative(changed.o, plain.o) < allowed
    assert relative(changed.final, plain.final) < allowed


def test_rounding_toward_zero_changes_a_recipe_that_rounds_and_none_that_does_not() -> None:
    down = replace(SGLANG, rounding=Rounding.TOWARD_ZERO)
    assert not torch.equal(outputs(CHUNK_EMULATOR, down).o, outputs(CHUNK_EMULATOR, SGLANG).o)
    exact_down = replace(EXACT, rounding=Rounding.TOWARD_ZERO, tf32_rounding=Rounding.TOWARD_ZERO)
    assert torch.equal(outputs(CHUNK_EMULATOR, exact_down).o, outputs(CHUNK_EMULATOR, EXACT).o)


@pytest.mark.parametrize("point", ["intra_operand", "diagonal_operand", "inverse_merge"])
def test_tf32_operands_may_be_cut_where_the_rest_is_rounded(point: str) -> None:
    nearest = replace(base(point), **{point: Precision.TF32})
    cut = replace(nearest, tf32_rounding=Rounding.TOWARD_ZERO)
    assert not torch.equal(outputs(CHUNK_EMULATOR, cut).o, outputs(CHUNK_EMULATOR, nearest).o)
    assert torch.equal(
        outputs(CHUNK_EMULATOR, cut).o, outputs(CHUNK_EMULATOR, replace(nearest, rounding=Rounding.TOWARD_ZERO)).o
    )
    in_bf16 = replace(cut, **{point: BF16})
    assert torch.equal(
        outputs(CHUNK_EMULATOR, in_bf16).o, outputs(CHUNK_EMULATOR, replace(in_bf16, tf32_rounding=None)).o
    )


def prefix_output(recipe: Recipe, length: int) -> torch.Tensor:
    """o of the first 20 tokens of a sequence of ``length`` tokens."""
    x = random_inputs((40,), regime="mild")
    parts = {name: getattr(x, name)[:length] for name in ("q", "k", "v", "a", "b")}
    return CHUNK_EMULATOR(replace(x, **parts, offsets=(0, length)), random_states(1), (), recipe).o[:20]


@pytest.mark.parametrize("operand", [Precision.TF32, BF16], ids=str)
def test_the_middle_reference_leaks_the_length_into_the_past(operand: Precision) -> None:
    middle = replace(EXACT, diagonal="middle", diagonal_operand=operand)
    assert not torch.equal(prefix_output(middle, 20), prefix_output(middle, 24))
    assert torch.equal(prefix_output(middle, 25), prefix_output(middle, 40)), "token 8 of the sub-chunk is there"


@pytest.mark.parametrize("diagonal", ["direct", "first", "fused", "shifted"])
@pytest.mark.parametrize("operand", [Precision.FP32, Precision.TF32, BF16], ids=str)
def test_other_references_do_not_leak_the_length(diagonal: Any, operand: Precision) -> None:
    recipe = replace(EXACT, diagonal=diagonal, diagonal_operand=operand)
    assert torch.equal(prefix_output(recipe, 20), prefix_output(recipe, 24))
    assert torch.equal(prefix_output(recipe, 20), prefix_output(recipe, 40))


@pytest.mark.parametrize(
    ("length", "start", "expected"),
    [
        (1, 100, [0]),
        (28, 100, [0]),
        (29, 100, [0, 28]),
        (200, 100, [0, 28, 92, 156]),
        (129, 128, [0, 64, 128]),
        (64, 64, [0]),
    ],
    ids=lambda value: str(value),
)
def test_an_absolute_grid_puts_chunks_on_multiples_of_the_chunk(length: int, start: int, expected: list[int]) -> None:
    recipe = replace(EXACT, grid_origin="absolute")
    assert chunk_starts(length, start, recipe) == expected
    assert all((start + begin) % 64 == 0 for begin in expected[1:])
    assert chunk_starts(length, start, EXACT) == list(range(0, length, 64))


def test_states_at_an_absolute_grid_are_the_states_at_those_tokens() -> None:
    x, initial, recipe = random_inputs((200,), starts=(100,)), random_states(1), replace(EXACT, grid_origin="absolute")
    found = CHUNK_EMULATOR(x, initial, (tap(1),), recipe).snapshots[0]
    parts = {name: getattr(x, name)[:28] for name in ("q", "k", "v", "a", "b")}
    truth = ORACLE_KERNEL(replace(x, **parts, offsets=(0, 28)), initial, (), recipe).final[0]
    assert relative(found, truth) < predict(EXACT, "chunk", 32, decay_span(x, EXACT)).state


def test_presets_have_their_own_names_and_say_what_they_promise() -> None:
    assert {name: recipe.name for name, recipe in PRESETS.items()} == {name: name for name in PRESETS}
    assert set(EXACT.precisions().values()) == {Precision.FP32}
    assert set(ORACLE.precisions().values()) == {Precision.FP64}
    assert SGLANG.recurrent_qk is Precision.FP32
    assert {f.name for f in fields(Recipe)} > set(EXACT.precisions())
    choices = "exact, fla, oracle, sglang, sglang-direct, sglang-gdn, sglang-helion, sglang-small-grid, vllm"
    with pytest.raises(ValueError, match=f"unknown recipe 'vlm'; choose one of {choices}"):
        preset("vlm")


def test_every_recipe_finds_a_kernel_for_each_form() -> None:
    anywhere = {"ours/oracle", "ours/chunk-emulator", "ours/recurrent-torch", "ours/recurrent-cpu"}
    assert set(KERNELS) - anywhere | set(UNAVAILABLE) == {"ours/chunk-triton", "ours/recurrent-triton"}
    assert ours(ORACLE, "cpu") == {"chunk": ORACLE_KERNEL, "recurrent": ORACLE_KERNEL}
    assert ours(SGLANG, "cpu") == {"chunk": CHUNK_EMULATOR, "recurrent": RECURRENT_CPU}
    compiled = RECURRENT_TRITON if available() else RECURRENT_TORCH
    assert ours(SGLANG, "cuda")["recurrent"] is compiled
    assert ours(replace(SGLANG, beta_site="nowhere"), "cuda") == {"chunk": CHUNK_EMULATOR, "recurrent": RECURRENT_TORCH}
