"""SGLang's verify of speculation windows and its copy back of the accepted state, as calls that can be repeated.

Read in SGLang 0.5.23, ``kernels/ops``: ``attention/linear/fused_sigmoid_gating_recurrent.py`` (verify, which stores the
state after every position in scratch) and ``mamba/mamba_state_scatter_triton.py`` (one launch copies the accepted ones of
all layers to the pool). Convolution windows, which SGLang copies in a launch of their own, aren't part of the call here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ..speculation.window import Windows
from .platform import processors
from .sglang import SOURCE
from .sglang_calls import OPS
from .shim import KernelModules

Call = Callable[[], object]

_COMMON = "sglang.srt.utils.common"
_MAMBA, _MEMORY = "sglang.kernels.ops.mamba", "sglang.kernels.ops.memory"


class SglangWindows:
    """The functions of one installation. All layers of a verify are looped, as the engine's model does."""

    def __init__(self, path: Path | None = None) -> None:
        """
        Args:
            path: folder that holds sglang's package; None takes the installed one.

        Raises:
            MissingPackage: sglang's files, or Triton, aren't there.
        """
        common = {**SOURCE.stubs[_COMMON], "get_device_core_count": processors}
        source = replace(SOURCE, bare=(*SOURCE.bare, _MAMBA, _MEMORY), stubs={**SOURCE.stubs, _COMMON: common})
        self.modules = KernelModules(source, path)
        linear = self.modules.load(f"{OPS}.linear.fused_sigmoid_gating_recurrent")
        self._verify = linear.fused_sigmoid_gating_delta_rule_update
        self._scatter = self.modules.load(f"{_MAMBA}.mamba_state_scatter_triton").fused_mamba_state_scatter_with_mask

    @property
    def version(self) -> str:
        return self.modules.version

    def native_verify(self, windows: Sequence[Windows], pool: Tensor, slots: Tensor) -> tuple[Call, Tensor]:
        """Verify that reads the pool and stores the state after every position in scratch.

        Args:
            windows: one a layer, of full length. pool: [L, S, H, V, K]. slots: [R] checkpoints.

        Returns:
            The call, and the scratch [L, R, Q, H, V, K] that it fills.
        """
        rows, width = windows[0].rows, windows[0].width
        scratch = pool.new_empty(pool.shape[0], rows, width, *pool.shape[2:])
        offsets = torch.tensor(windows[0].inputs.offsets, dtype=torch.int32, device=pool.device)
        indices, order = slots.int(), torch.arange(rows, dtype=torch.int32, device=pool.device)

        def call() -> None:
            for layer, window in enumerate(windows):
                x = window.inputs
                self._verify(
                    A_log=x.A_log,
                    a=x.a[None].flatten(2),
                    dt_bias=x.dt_bias.reshape(-1),
                    softplus_beta=1.0,
                    softplus_threshold=20.0,
                    q=x.q[None],
                    k=x.k[None],
                    v=x.v[None],
                    b=x.b[None],
                    initial_state_source=pool[layer],
                    initial_state_indices=indices,
                    scale=x.k.shape[-1] ** -0.5,
                    use_qk_l2norm_in_kernel=True,
                    cu_seqlens=offsets,
                    is_kda=True,
                    lower_bound=x.lower_bound,
                    disable_state_update=True,
                    intermediate_states_buffer=scratch[layer],
                    intermediate_state_indices=order,
                    cache_steps=width,
                )

        return self.modules.within(call), scratch

    def copy_back(self, pool: Tensor, scratch: Tensor, slots: Tensor, accepted: Tensor) -> Call:
        """The state after ``accepted`` [R] tokens of each window to its slot [R], all layers in one launch."""
        targets, steps = slots.int(), (accepted - 1).int()
        return self.modules.within(lambda: self._scatter(pool, scratch, targets, steps))
