"""Small random windows, states and parameters for checks: real decay sizes, K ≠ V, a window of every length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..contract import KdaInputs
from ..precision import Precision
from ..recipe import Recipe
from .commit import Decays
from .conv_window import columns
from .pools import Geometry, Pools
from .window import Windows

KEY, VALUE, HISTORY, CHANNELS = 32, 48, 3, 40
_VALUES = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


@dataclass(frozen=True)
class Case:
    """L layers of R windows; slot 1 + 2·r holds request r's checkpoint, slot 2 + 2·r is free, slot 0 is null (NaN)."""

    windows: tuple[Windows, ...]
    decays: Decays
    pools: Pools
    slots: Tensor

    @property
    def layers(self) -> int:
        return len(self.windows)


def case(
    recipe: Recipe,
    width: int,
    lengths: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    lower_bound: float | None = None,
    seed: int = 0,
    layers: int = 2,
    heads: int = 2,
    value_heads: int = 4,
) -> Case:
    """Random tensors, drawn on the CPU so that every device gets the same. Decays from about −0.001 to −1.6 a token."""
    draws = torch.Generator().manual_seed(seed)
    rows, tokens = len(lengths), len(lengths) * width

    def normal(*shape: int) -> Tensor:
        drawn = torch.randn(*shape, generator=draws)
        return drawn.to(_VALUES.get(recipe.activation, torch.float32)).float().to(device)

    # As Kimi Linear is initialised: A in U(1, 16), time steps log-uniform from e^-6.9 = 0.001 to e^-2.3 = 0.1.
    A_log = torch.rand(layers, value_heads, generator=draws).mul(15).add(1).log().to(device)
    steps = torch.rand(layers, value_heads, KEY, generator=draws).mul(4.6).sub(6.9).exp()
    dt_bias = steps.expm1().log().to(device)
    made = tuple(
        Windows(
            KdaInputs(
                q=normal(tokens, heads, KEY),
                k=normal(tokens, heads, KEY),
                v=normal(tokens, value_heads, VALUE),
                a=normal(tokens, value_heads, KEY),
                b=normal(tokens, value_heads),
                A_log=A_log[layer],
                dt_bias=dt_bias[layer],
                offsets=tuple(range(0, tokens + 1, width)),
                lower_bound=lower_bound,
            ),
            torch.tensor(lengths, device=device),
        )
        for layer in range(layers)
    )
    shape = Geometry(layers, value_heads, VALUE, KEY, CHANNELS, HISTORY)
    pools = Pools.empty(shape, 2 * rows + 1, columns(HISTORY, width), dtype, torch.bfloat16, device)
    slots = 1 + 2 * torch.arange(rows, device=device)
    pools.temporal[:, slots] = (normal(layers, rows, value_heads, VALUE, KEY) * 0.3).to(dtype)
    pools.conv[:, slots] = normal(layers, rows, pools.conv.shape[2], CHANNELS).bfloat16()
    return Case(made, Decays(A_log, dt_bias, lower_bound), pools, slots)
