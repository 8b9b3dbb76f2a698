"""SGLang's Helion kernels get what they expect: a stand-in for the package notes its arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from replaycheck_kernels.contract import SnapshotRow, SnapshotSource
from replaycheck_kernels.providers.interpreted import case, part
from replaycheck_kernels.providers.provider import MissingPackage, ModelKind, ProviderError
from replaycheck_kernels.providers.sglang import SOURCE, _one_token
from replaycheck_kernels.providers.sglang_calls import OPS
from replaycheck_kernels.providers.sglang_helion import kernels
from replaycheck_kernels.providers.shim import KernelModules
from replaycheck_kernels.recipe import preset

FILES = f"{OPS}.helion"

VERIFY = """
calls = []
def helion_kda_verify(**given):
    calls.append(given)
    given["intermediate_states_buffer"].copy_(given["ssm_states"][given["cache_indices"].long()][:, None] + 1)
    return given["v"] * 2
"""
DECODE = """
calls = []
def helion_fused_recurrent_kda_packed_decode(**given):
    calls.append(given)
    given["initial_state"][given["ssm_state_indices"].long()] += 1
    given["out"].fill_(3)
"""
PREFILL = """
calls = []
def chunk_kda(**given):
    calls.append(given)
    given["initial_state"][given["initial_state_indices"].long()] += 1
    if given["track_state"] is not None:
        given["track_state"].fill_(7)
    return given["v"], given["v"].new_zeros(1, 2, 2, 8, 16)
"""


def modules(folder: Path, **files: str) -> KernelModules:
    place = folder.joinpath(*FILES.split("."))
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    for name, text in files.items():
        (place / f"kda_{name}.py").write_text(text)
    return KernelModules(SOURCE, folder)


def test_without_helion_a_line_says_what_to_install(tmp_path: Path) -> None:
    loaded = modules(tmp_path, verify="import helion_that_is_nowhere\n")
    with pytest.raises(MissingPackage, match=r"needs helion_that_is_nowhere: install"):
        kernels()["sglang/helion_kda_verify"].build(loaded)
    loaded = modules(tmp_path / "other", verify="raise ModuleNotFoundError(name='helion')\n")
    with pytest.raises(MissingPackage, match=r"needs helion for it: pip install helion==1\.4\.0"):
        kernels()["sglang/helion_kda_verify"].build(loaded)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, None), (torch.bfloat16, -5.0)])
def test_verify_reads_the_slots_and_the_last_state_is_stored(
    tmp_path: Path, dtype: torch.dtype, bound: float | None
) -> None:
    loaded = modules(tmp_path, verify=VERIFY)
    call = kernels()["sglang/helion_kda_verify"].build(loaded)
    inputs, initial = case(ModelKind.KDA, [3, 2], 16, 8)
    pool = torch.zeros(5, *initial.shape[1:], dtype=dtype)
    pool[1:3] = initial.to(dtype)
    before = pool.clone()
    row = SnapshotRow(0, 0, 0, SnapshotSource.ACCUMULATOR)
    done = call(replace(inputs, lower_bound=bound), pool, (2, 1), [row], preset("sglang"))
    (given,) = loaded.load(f"{FILES}.kda_verify").calls
    assert given["cache_indices"].tolist() == [2, 1] and given["cache_steps"] == 3
    assert given["intermediate_states_buffer"].shape == (2, 3, 2, 8, 16)
    assert given["intermediate_states_buffer"].dtype is dtype and given["lower_bound"] == bound
    assert given["query_start_loc"].tolist() == [0, 3, 5] and given["a"].shape == (1, 5, 2, 16)
    assert torch.equal(pool[[2, 1]], before[[2, 1]] + 1) and torch.equal(pool[[0, 3, 4]], before[[0, 3, 4]])
    assert torch.equal(done.taps[row], before[2]), "before the first token"
    assert done.o.shape == (5, 2, 8)


def test_packed_decode_refuses_widths_that_its_own_check_refuses(tmp_path: Path) -> None:
    call = kernels()["sglang/helion_kda_packed_decode"].build(modules(tmp_path, decode=DECODE))
    inputs, initial = case(ModelKind.KDA, [1], 16, 24)
    with pytest.raises(ProviderError, match="helion_kda_packed_decode can't run K=16, V=24; it needs powers of two"):
        call(inputs, initial.clone(), (0,), (), preset("sglang"))


def test_packed_decode_is_called_for_each_position_with_the_active_slots(tmp_path: Path) -> None:
    loaded = modules(tmp_path, decode=DECODE)
    inputs, initial = case(ModelKind.KDA, [2, 1], 16, 8)
    pool = initial.clone()
    kernels()["sglang/helion_kda_packed_decode"].build(loaded)(inputs, pool, (1, 0), (), preset("sglang"))
    calls = loaded.load(f"{FILES}.kda_decode").calls
    assert [given["ssm_state_indices"].tolist() for given in calls] == [[1, 0], [1]]
    assert all(given["use_qk_l2norm_in_kernel"] and given["scale"] == 0.25 for given in calls)
    assert torch.equal(pool[1], initial[1] + 1 + 1) and torch.equal(pool[0], initial[0] + 1)


def test_prefill_passes_raw_beta_and_takes_the_tracked_accumulator(tmp_path: Path) -> None:
    loaded = modules(tmp_path, prefill=PREFILL)
    inputs, initial = case(ModelKind.KDA, [70], 16, 8)
    row = SnapshotRow(0, 1, 0, SnapshotSource.ACCUMULATOR)
    done = kernels()["sglang/helion_chunk_kda"].build(loaded)(inputs, initial.clone(), (0,), [row], preset("sglang"))
    (given,) = loaded.load(f"{FILES}.kda_prefill").calls
    assert given["beta_is_raw"] and given["track_chunk_idx"].tolist() == [1]
    assert bool((done.taps[row] == 7).all())


def test_a_call_of_one_token_claims_what_tritons_kernel_claims() -> None:
    inputs, _ = case(ModelKind.KDA, [3], 16, 8)
    assert _one_token(inputs) == "sglang-helion"
    assert _one_token(part(inputs, 0, 1)) == "sglang-small-grid"
