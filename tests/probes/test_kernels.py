"""The kernel probe: our kernels pass under their recipes, a kernel that isn't what its recipe claims fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from replaycheck.faults.fault import find_fault
from replaycheck.probes.collection import kernel_probes, real_states, state_probes
from replaycheck.probes.kernels import HEADS, KEY, LENGTHS, VALUE, Regime, inputs, probe_kernel, regimes
from replaycheck.state_probes.groups import chain
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck_kernels.chunk import CHUNK_EMULATOR
from replaycheck_kernels.compiled import RECURRENT_CPU
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.recipe import EXACT, SGLANG, Recipe
from replaycheck_kernels.registry import ours
from tests.probes.small import write_small

KERNELS = pytest.mark.parametrize("kernel", [CHUNK_EMULATOR, RECURRENT_CPU], ids=["chunk", "recurrent"])
RECIPES = pytest.mark.parametrize("recipe", [EXACT, SGLANG], ids=lambda recipe: recipe.name)
MILD = next(regimes(0))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("probes") / "small", "kda", "mla")


@RECIPES
@KERNELS
@pytest.mark.parametrize("regime", list(regimes(0)), ids=lambda regime: regime.name)
def test_our_kernels_are_within_what_their_recipe_predicts(kernel: StateKernel, recipe: Recipe, regime: Regime) -> None:
    result = probe_kernel(kernel, recipe, regime, seed=0)
    assert result.verdict == "pass", result.sentence
    # Far under the bound, the bound would catch nothing: high by 1.3 to 2.5 for bf16 points, by more for decays.
    assert result.values["ratio"] > (0.3 if recipe is SGLANG else 0.003)
    assert result.values["error"] <= result.values["predicted"]


@RECIPES
@KERNELS
def test_beta_without_its_sigmoid_fails(kernel: StateKernel, recipe: Recipe) -> None:
    spoil = find_fault("beta-raw").recipe
    assert spoil is not None
    result = probe_kernel(kernel, recipe, MILD, 0, run_as=spoil(recipe))
    assert result.verdict == "fail"
    assert result.values["ratio"] > 50


@KERNELS
def test_a_kernel_that_rounds_more_than_it_claims_fails(kernel: StateKernel) -> None:
    result = probe_kernel(kernel, EXACT, MILD, 0, run_as=SGLANG)
    assert result.verdict == "fail"
    assert result.values["ratio"] > 50


def test_one_rounding_more_than_claimed_fails_even_if_it_keeps_sixteen_bits() -> None:
    result = probe_kernel(CHUNK_EMULATOR, EXACT, MILD, 0, run_as=replace(EXACT, v_new=Precision.HILO))
    assert result.verdict == "fail"
    assert 1 < result.values["ratio"] < 10


def test_a_kernel_that_rounds_less_than_it_claims_passes() -> None:
    assert probe_kernel(CHUNK_EMULATOR, SGLANG, MILD, 0, run_as=EXACT).verdict == "pass"


def test_inputs_have_unlike_widths_and_lengths_round_the_chunk() -> None:
    x = inputs(MILD, SGLANG, 0)
    assert KEY != VALUE
    assert x.v.shape == (sum(LENGTHS), HEADS, VALUE)
    assert {63, 64, 65, 1} < set(LENGTHS)
    assert torch.equal(x.q, x.q.bfloat16().float())
    assert not torch.equal(x.q, inputs(MILD, SGLANG, 1).q)


def test_regimes_take_learnt_decays_that_fit() -> None:
    fitting, other = (torch.zeros(HEADS), torch.zeros(HEADS, KEY)), (torch.zeros(HEADS), torch.zeros(HEADS, 32))
    names = [regime.name for regime in regimes(0, [fitting, other])]
    assert names == ["mild", "kimi", "strong", "learnt-0"]


def test_a_run_probes_each_form_under_exact_and_its_own_recipe(model: Path) -> None:
    results = list(kernel_probes(model, "sglang", KernelChoice(), seed=0))
    assert [result.name for result in results] == [
        f"kernels/{kernel}/{recipe}/{regime}"
        for recipe in ("exact", "sglang")
        for kernel in ("chunk-emulator", "recurrent-cpu")
        for regime in ("mild", "kimi", "strong", "learnt-0")
    ]
    assert {result.verdict for result in results} == {"pass"}


def test_a_recipe_fault_fails_every_kernel_probe_of_a_run(model: Path) -> None:
    results = kernel_probes(model, "exact", KernelChoice(), seed=0, spoil=find_fault("beta-raw").recipe)
    assert {result.verdict for result in results} == {"fail"}


def test_state_probes_use_the_accumulators_of_the_longest_prompt(model: Path) -> None:
    network, group = Network(model, SGLANG, ours(SGLANG, "cpu")), chain(40, 3, 50, 2)
    states = real_states(network, [group])
    assert states.shape == (1, HEADS, KEY, KEY)
    path = [129, *(token for turn in group.traces[0].turns[:3] for token in turn.tokens), 132]
    with torch.no_grad():
        expected = network.forward([RowInput(path, 0, "chunk", network.empty_state())])[0].final.temporal
    assert torch.equal(torch.from_numpy(states), expected)
    (clean,) = state_probes(network, [group])
    (faulty,) = state_probes(network, [group], find_fault("via-bf16").cast or torch.Tensor.to)
    assert (clean.verdict, faulty.verdict) == ("pass", "fail")
