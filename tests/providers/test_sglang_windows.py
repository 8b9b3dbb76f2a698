"""SGLang's window functions get what they expect; a package of the test's own stands in, which notes its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.providers.sglang_windows import SglangWindows
from replaycheck_kernels.speculation.window import Windows

VERIFY = """
calls = []
def fused_sigmoid_gating_delta_rule_update(**given):
    calls.append(given)
    given["intermediate_states_buffer"].fill_(len(calls))
"""
SCATTER = """
from sglang.kernels.ops.memory.ptr_table import table
from sglang.srt.utils.common import get_device_core_count
calls = []
def fused_mamba_state_scatter_with_mask(*given):
    import sglang.late
    calls.append(given)
"""


def test_a_verify_leaves_the_pool_alone_and_the_accepted_positions_are_copied(tmp_path: Path) -> None:
    ops = tmp_path / "sglang/kernels/ops"
    files = {
        ops / "attention/linear/fused_sigmoid_gating_recurrent.py": VERIFY,
        ops / "mamba/__init__.py": "raise RuntimeError('the server was imported')",
        ops / "mamba/mamba_state_scatter_triton.py": SCATTER,
        ops / "memory/ptr_table.py": "table = ()",
        tmp_path / "sglang/late.py": "",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    engine = SglangWindows(tmp_path)
    x = KdaInputs(
        *(torch.ones(6, 1, width) for width in (4, 4, 2, 4)),
        torch.ones(6, 1),
        torch.zeros(1),
        torch.zeros(1, 4),
        (0, 3, 6),
        (),
        -5.0,
    )
    windows, pool, slots = [Windows(x, torch.tensor([3, 3]))] * 2, torch.zeros(2, 5, 1, 2, 4), torch.tensor([1, 3])
    verify, scratch = engine.native_verify(windows, pool, slots)
    verify()
    calls = engine.modules.load("sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent").calls
    assert [float(layer.mean()) for layer in scratch] == [1, 2] and scratch.shape == (2, 2, 3, 1, 2, 4)
    given = calls[1]
    assert given["disable_state_update"] and given["is_kda"] and given["lower_bound"] == -5.0 and given["scale"] == 0.5
    assert given["initial_state_source"].data_ptr() == pool[1].data_ptr()
    assert given["initial_state_indices"].tolist() == [1, 3] and given["intermediate_state_indices"].tolist() == [0, 1]
    assert given["cache_steps"] == 3 and given["cu_seqlens"].tolist() == [0, 3, 6] and given["a"].shape == (1, 6, 4)
    engine.copy_back(pool, scratch, slots, torch.tensor([1, 3]))()
    to, source, targets, steps = engine.modules.load("sglang.kernels.ops.mamba.mamba_state_scatter_triton").calls[0]
    assert to is pool and source is scratch and targets.tolist() == [1, 3]
    assert steps.tolist() == [0, 2], "the position of the last accepted token"
    assert not any(name.startswith("sglang") for name in sys.modules), "nothing stays"
