"""vLLM's verify of speculation windows and its RecoverSSM commit, prepared as calls that can be repeated and captured.

Read in vLLM 0.33.0, ``vllm/models/kimi_k3/nvidia/ops``: ``recoverssm.py`` (verify, commit) and
``third_party/kda/fused_recurrent.py`` (the verify that stores a state for every position). Beside the stubs of ``vllm.py``
it takes three names of the engine: the order of a convolution state's axes, the null block, and the CuTe commit, which is
left out: its own Triton commit runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from ..speculation.commit import NULL, Align, Decays
from ..speculation.verify import Records, Verified
from ..speculation.window import Windows
from .shim import KernelModules
from .vllm import source

Call = Callable[[], object]

_OPS = "vllm.models.kimi_k3.nvidia.ops"
_STUBS: dict[str, dict[str, object]] = {
    "vllm.model_executor.layers.mamba.mamba_utils": {"is_conv_state_dim_first": lambda: False},
    "vllm.models.kimi_k3.nvidia.recoverssm.kernels": {"cute_recoverssm_commit": None},
    "vllm.v1.attention.backends.utils": {"NULL_BLOCK_ID": NULL},
}


class VllmWindows:
    """The functions of one installation. All layers of a call are looped, as the engine's model does."""

    def __init__(self, path: Path | None = None) -> None:
        """
        Args:
            path: folder that holds vllm's package; None takes the installed one.

        Raises:
            MissingPackage: vllm's files, or Triton, aren't there.
        """
        base = source()
        self.modules = KernelModules(replace(base, stubs={**base.stubs, **_STUBS}), path)
        self._recover = self.modules.load(f"{_OPS}.recoverssm")
        self._native = self.modules.load(f"{_OPS}.third_party.kda.fused_recurrent").fused_recurrent_kda

    @property
    def version(self) -> str:
        return self.modules.version

    def native_verify(self, windows: Sequence[Windows], pool: Tensor, slots: Tensor) -> tuple[Call, Tensor]:
        """Verify that stores the state after every position.

        Args:
            windows: one a layer, of full length. pool: [L, S, H, V, K], copied from. slots: [R] checkpoints.

        Returns:
            The call, and the outputs of the last layer, [R·Q, H, V], which it fills.
        """
        rows, width = windows[0].rows, windows[0].width
        states = pool.new_empty(pool.shape[0], rows * width + 1, *pool.shape[2:])
        states[:, 1 + width * torch.arange(rows, device=pool.device)] = pool[:, slots]
        indices = 1 + torch.arange(rows * width, device=pool.device, dtype=torch.int32).view(rows, width)
        cu_seqlens, one = _bounds(windows[0]), torch.ones(rows, device=pool.device, dtype=torch.int32)
        out = torch.empty_like(windows[0].inputs.v)[None]

        def call() -> None:
            for layer, window in enumerate(windows):
                x = window.inputs
                self._native(
                    q=x.q[None],
                    k=x.k[None],
                    v=x.v[None],
                    out=out,
                    raw_g=x.a[None],
                    raw_beta=x.b[None],
                    A_log=x.A_log,
                    dt_bias=x.dt_bias,
                    lower_bound=x.lower_bound,
                    initial_state=states[layer],
                    cu_seqlens=cu_seqlens,
                    ssm_state_indices=indices,
                    num_accepted_tokens=one,
                )

        return self.modules.within(call), out[0]

    def recover_verify(self, windows: Sequence[Windows], pool: Tensor, slots: Tensor) -> tuple[Call, Verified]:
        """RecoverSSM's read-only verify; arguments as above.

        Returns:
            The call, and what it fills of the last layer, in our layout (views).
        """
        first, heads, key = windows[0].inputs, pool.shape[2], pool.shape[4]
        rows, width = windows[0].rows, windows[0].width
        records = [
            self._recover.KDARecoverSSMRecords.allocate(rows, heads, width, key, first.k.dtype, pool.device)
            for _ in windows
        ]
        out, bounds, indices = torch.empty_like(first.v)[None], _bounds(windows[0]), slots.int()

        def call() -> None:
            for layer, window in enumerate(windows):
                x = window.inputs
                self._recover.kda_recoverssm_verify(
                    x.q[None], x.k[None], x.v[None], x.a[None], x.b[None], x.A_log, x.dt_bias, x.lower_bound,
                    pool[layer], records[layer], bounds, indices, width, out,
                )  # fmt: skip

        last = records[-1]
        ours = Records(last.correction, last.key_gate[..., :key], last.key_gate[..., key:])
        return self.modules.within(call), Verified(out[0].unflatten(0, (rows, width)), ours)

    def commit(
        self,
        pool: Tensor,
        conv: Tensor,
        records: Records,
        decays: Decays,
        accepted: Tensor,
        slots: Tensor,
        align: Align | None,
    ) -> Call:
        """Plan, compaction and rebuild of all layers, in place.

        Args:
            pool: [L, S, H, V, K]. conv: [L, S, E, D]. records, decays: of all layers, [L, …].
            accepted, slots: [R]; every window is of full length.
        """
        heads, rows, width = pool.shape[2], records.correction.shape[1], records.correction.shape[3]
        layers = [
            SimpleNamespace(
                kv_cache=[conv[i], pool[i]],
                A_log=decays.A_log[i],
                dt_bias=decays.dt_bias[i].reshape(-1),
                local_num_heads=heads,
                head_dim=pool.shape[4],
                gate_lower_bound=decays.lower_bound,
                recoverssm_records=self._recover.KDARecoverSSMRecords(
                    records.correction[i].contiguous(), torch.cat([records.key[i], records.decay[i]], -1).contiguous()
                ),
            )
            for i in range(pool.shape[0])
        ]
        with self.modules.active():
            context = self._recover.KDARecoverSSMCommitContext.create(layers, spec_query_len=width, max_num_reqs=rows)
        offsets = torch.arange(0, rows * width + 1, width, device=pool.device, dtype=torch.int32)
        given, aligned = (accepted.int(), slots.int(), offsets), _aligned(align)
        return self.modules.within(lambda: context.commit(*given, **aligned))


def _bounds(window: Windows) -> Tensor:
    """[R + 1] int32."""
    return torch.tensor(window.inputs.offsets, dtype=torch.int32, device=window.inputs.q.device)


def _aligned(align: Align | None) -> dict[str, object]:
    if align is None:
        return {}
    return {
        "block_table": align.table.int(),
        "num_computed_tokens": align.computed.int(),
        "mamba_block_size": align.block,
    }
