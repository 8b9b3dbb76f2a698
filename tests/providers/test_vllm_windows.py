"""vLLM's window functions get what they expect; a package of the test's own stands in, which notes its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.providers.vllm_windows import VllmWindows
from replaycheck_kernels.speculation.commit import Align, Decays
from replaycheck_kernels.speculation.verify import Records
from replaycheck_kernels.speculation.window import Windows

ROWS, WIDTH, HEADS, KEY, VALUE = 2, 3, 1, 4, 2

RECOVER = """
from dataclasses import dataclass
import torch
from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first
from vllm.models.kimi_k3.nvidia.recoverssm.kernels import cute_recoverssm_commit
from vllm.v1.attention.backends.utils import NULL_BLOCK_ID

assert not is_conv_state_dim_first() and NULL_BLOCK_ID == 0 and cute_recoverssm_commit is None
calls = []

@dataclass
class KDARecoverSSMRecords:
    correction: object
    key_gate: object

    @classmethod
    def allocate(cls, requests, heads, width, dim, dtype, device):
        return cls(torch.zeros(requests, heads, width, dim), torch.zeros(requests, heads, width, 2 * dim, dtype=dtype))

def kda_recoverssm_verify(q, k, v, g, b, A_log, dt_bias, bound, state, records, offsets, slots, width, out):
    records.key_gate[..., : k.shape[-1]] = 1
    records.key_gate[..., k.shape[-1] :] = 2
    out.fill_(3)
    calls.append((state, offsets, slots, width, bound))

class KDARecoverSSMCommitContext:
    @classmethod
    def create(cls, layers, *, spec_query_len, max_num_reqs):
        made = cls()
        made.layers, made.sizes = layers, (spec_query_len, max_num_reqs)
        calls.append(made)
        return made

    def commit(self, *given, **aligned):
        import vllm.late
        calls.append((given, aligned))
"""
NATIVE = """
calls = []
def fused_recurrent_kda(**given):
    calls.append(given)
"""


@pytest.fixture
def vllm(tmp_path: Path) -> VllmWindows:
    ops = tmp_path / "vllm/models/kimi_k3/nvidia/ops"
    files = {
        ops / "recoverssm.py": RECOVER,
        ops / "third_party/kda/fused_recurrent.py": NATIVE,
        ops / "third_party/__init__.py": "",
        ops / "third_party/kda/__init__.py": "",
        tmp_path / "vllm/late.py": "",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return VllmWindows(tmp_path)


def _windows() -> tuple[Windows, Windows]:
    g, tokens = torch.Generator().manual_seed(0), ROWS * WIDTH
    x = KdaInputs(
        *(torch.randn(tokens, HEADS, width, generator=g) for width in (KEY, KEY, VALUE, KEY)),
        torch.randn(tokens, HEADS, generator=g),
        torch.zeros(HEADS),
        torch.zeros(HEADS, KEY),
        (0, 3, 6),
        (),
        -5.0,
    )
    window = Windows(x, torch.full((ROWS,), WIDTH))
    return window, window


POOL = torch.arange(2 * 5 * HEADS * VALUE * KEY, dtype=torch.float32).view(2, 5, HEADS, VALUE, KEY)
SLOTS = torch.tensor([1, 3])


def test_the_native_verify_has_a_slot_for_every_position_and_starts_from_the_checkpoint(vllm: VllmWindows) -> None:
    call, _ = vllm.native_verify(_windows(), POOL, SLOTS)
    call()
    calls = vllm.modules.load("vllm.models.kimi_k3.nvidia.ops.third_party.kda.fused_recurrent").calls
    assert len(calls) == 2, "one a layer"
    indices: Tensor = calls[1]["ssm_state_indices"]
    assert sorted(indices.flatten().tolist()) == list(range(1, ROWS * WIDTH + 1)), "slot 0 is null"
    assert torch.equal(calls[1]["initial_state"][indices[:, 0]], POOL[1, SLOTS])
    assert calls[1]["cu_seqlens"].tolist() == [0, 3, 6] and calls[1]["num_accepted_tokens"].tolist() == [1, 1]


def test_recover_reads_the_pool_and_its_records_come_back_in_our_layout(vllm: VllmWindows) -> None:
    call, found = vllm.recover_verify(_windows(), POOL, SLOTS)
    call()
    state, offsets, slots, width, bound = vllm.modules.load("vllm.models.kimi_k3.nvidia.ops.recoverssm").calls[-1]
    assert state.data_ptr() == POOL[1].data_ptr() and slots.dtype is torch.int32
    assert (offsets.tolist(), slots.tolist(), width, bound) == ([0, 3, 6], [1, 3], WIDTH, -5.0)
    assert found.o.shape == (ROWS, WIDTH, HEADS, VALUE) and bool((found.o == 3).all())
    assert bool((found.records.key == 1).all()) and bool((found.records.decay == 2).all())


@pytest.mark.parametrize("aligned", [False, True])
def test_the_commit_gets_all_layers_and_their_plan(vllm: VllmWindows, aligned: bool) -> None:
    shape = (2, ROWS, HEADS, WIDTH)
    records = Records(torch.zeros(*shape, VALUE), torch.ones(*shape, KEY), torch.full((*shape, KEY), 2.0))
    decays = Decays(torch.zeros(2, HEADS), torch.zeros(2, HEADS, KEY), -5.0)
    align = Align(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 2]), WIDTH) if aligned else None
    call = vllm.commit(POOL, torch.zeros(2, 5, 4, 8), records, decays, torch.tensor([1, 3]), SLOTS, align)
    call()
    context, (given, plan) = vllm.modules.load("vllm.models.kimi_k3.nvidia.ops.recoverssm").calls[-2:]
    assert context.sizes == (WIDTH, ROWS) and len(context.layers) == 2
    assert context.layers[1].recoverssm_records.key_gate[0, 0, 0].tolist() == [1.0] * KEY + [2.0] * KEY
    assert [x.tolist() for x in given] == [[1, 3], [1, 3], [0, 3, 6]]
    assert all(x.dtype is torch.int32 for x in given)
    assert (
        (plan["mamba_block_size"] == WIDTH and plan["block_table"].tolist() == [[1, 2], [3, 4]])
        if aligned
        else not plan
    )
    assert not any(name.startswith("vllm") for name in sys.modules), "nothing stays"
