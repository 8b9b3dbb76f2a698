"""What our Triton kernels refuse, with and without Triton: nothing falls back in silence."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import EXACT, SGLANG, SGLANG_GDN, VLLM
from replaycheck_kernels.triton import kernels
from replaycheck_kernels.triton.kernels import CHUNK_TRITON, RECURRENT_TRITON
from tests.kernels.cases import BOUNDED, random_inputs, random_states

BOTH = pytest.mark.parametrize("kernel", [CHUNK_TRITON, RECURRENT_TRITON], ids=lambda kernel: kernel.form)


@pytest.fixture
def _with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals come before any launch, so the module with the kernels isn't needed for them."""
    monkeypatch.setattr(kernels, "_launch", lambda name: None)


@BOTH
def test_without_triton_a_call_says_what_to_install(kernel: StateKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "available", lambda: False)
    with pytest.raises(ValueError, match=rf"{kernel.name} needs an NVIDIA GPU and triton: pip install triton"):
        kernel(random_inputs((3,)), random_states(1), (), EXACT)


def test_a_recipe_that_isnt_compiled_is_refused() -> None:
    with pytest.raises(ValueError, match="doesn't run recipe 'vllm'; it runs exact, sglang, sglang-direct, sglang-gdn"):
        CHUNK_TRITON(random_inputs((3,)), random_states(1), (), VLLM)


@BOTH
@pytest.mark.usefixtures("_with_triton")
def test_a_changed_preset_is_refused(kernel: StateKernel) -> None:
    with pytest.raises(ValueError, match="'exact' only; this recipe has another beta_site: use the emulator"):
        kernel(random_inputs((3,)), random_states(1), (), replace(EXACT, beta_site="nowhere"))


@pytest.mark.usefixtures("_with_triton")
def test_a_diagonal_that_looks_ahead_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"lower bound: its reference 'middle' may be a later token; use 'sglang-direct'"
    ):
        CHUNK_TRITON(random_inputs((3,), layer=BOUNDED), random_states(1), (), SGLANG)


@pytest.mark.usefixtures("_with_triton")
def test_decays_on_the_products_are_for_one_a_head() -> None:
    with pytest.raises(ValueError, match="compiles 'sglang-gdn' for one decay a head; use 'sglang', or the emulator"):
        CHUNK_TRITON(random_inputs((3,)), random_states(1), (), SGLANG_GDN)


@BOTH
@pytest.mark.parametrize(("key", "value"), [(96, 64), (64, 24), (256, 64)])
@pytest.mark.usefixtures("_with_triton")
def test_widths_that_dont_fit_are_refused(kernel: StateKernel, key: int, value: int) -> None:
    with pytest.raises(ValueError, match=rf"K={key}, V={value}"):
        kernel(random_inputs((3,), key, value), random_states(1, key, value), (), EXACT)


def test_importing_the_kernels_doesnt_import_triton() -> None:
    folder = Path(kernels.__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import replaycheck_kernels.triton.kernels; "
    subprocess.run([sys.executable, "-c", code + "sys.exit('triton' in sys.modules)"], check=True)
