"""What the timed state operations work on: pools, convolution windows and speculation windows of all layers of one rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs
from replaycheck_kernels.recipe import VLLM
from replaycheck_kernels.speculation.commit import Align, Decays
from replaycheck_kernels.speculation.verify import Records, Verified
from replaycheck_kernels.speculation.window import Windows

RECIPE = replace(VLLM, recurrent_norm="rsqrt")
"""vLLM's recipe with the norm of its verify: its key is multiplied by rsqrt there."""

LOWER_BOUND = -5.0
"""Of the log decay; what Kimi-K3's configuration says."""


@dataclass(frozen=True)
class Geometry:
    """One rank's share of a model.

    Attributes:
        layers: with a recurrent state. heads: H = HV on this rank. key, value: K, V. width: Q, positions of a window.
        history: columns of a convolution window that a token needs, its kernel's width − 1.
    """

    layers: int
    heads: int
    key: int
    value: int
    width: int
    history: int

    @property
    def columns(self) -> int:
        """E: a convolution window in the speculative layout."""
        return self.history + self.width - 1

    @property
    def channels(self) -> int:
        """D: q, k and v of all heads."""
        return self.heads * (2 * self.key + self.value)

    @property
    def state_bytes(self) -> int:
        """fp32 state of one request and layer."""
        return self.heads * self.value * self.key * 4

    def __str__(self) -> str:
        sizes = f"{self.layers} layers, {self.heads} heads, K={self.key}, V={self.value}"
        return f"{sizes}, windows of {self.width}"


KIMI_K3_TP8 = Geometry(layers=69, heads=12, key=128, value=128, width=8, history=3)
"""69 KDA layers, 96 heads over 8 ranks: a checkpoint of 54 MB a request."""

SMALL = Geometry(layers=3, heads=2, key=32, value=16, width=4, history=3)
"""For a processor; K and V differ."""


@dataclass(frozen=True)
class World:
    """Tensors of R requests; request r's checkpoint is slot 1 + 2r, and slot 2 + 2r is free for it. Slot 0 is null.

    Attributes:
        windows: one a layer; they share tokens and differ in decay parameters.
        pool: [L, 2R + 1, H, V, K] fp32. conv: [L, 2R + 1, E, D] in the activations' dtype.
        records: of all layers, filled by a verify. accepted: [R], 1 to Q.
    """

    geometry: Geometry
    windows: tuple[Windows, ...]
    pool: Tensor
    conv: Tensor
    slots: Tensor
    records: Records
    o: Tensor
    decays: Decays
    accepted: Tensor

    @property
    def rows(self) -> int:
        return len(self.slots)

    @property
    def lengths(self) -> Tensor:
        return self.windows[0].lengths

    def into(self, layer: int) -> Verified:
        """Where a layer's verify writes; outputs of all layers share one place."""
        return Verified(self.o, records_of(self.records, layer))

    def align(self) -> Align:
        """Half of each window lies before the end of an aligned block of Q tokens."""
        table = torch.stack([self.slots, self.slots + 1], 1).contiguous()
        return Align(table, torch.full_like(self.slots, self.geometry.width // 2), self.geometry.width)


def records_of(records: Records, layer: int) -> Records:
    """One layer's records of stacked ones [L, ...]."""
    return Records(records.correction[layer], records.key[layer], records.decay[layer])


def draw(geometry: Geometry, rows: int, device: str, seed: int) -> World:
    """Random tokens and states. Decays are lower_bound·σ(A·(a + dt_bias)) with A in [1, 16], dt_bias as a fresh layer has.

    Activations are bf16 on a GPU and bf16 values in fp32 on the CPU, as the contract has them there.
    """
    g = torch.Generator(device=device).manual_seed(seed)
    container = torch.bfloat16 if device == "cuda" else torch.float32
    x, tokens = geometry, rows * geometry.width

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, device=device).bfloat16().to(container)

    # As Kimi Linear is initialised: A in U(1, 16), time steps log-uniform from e^-6.9 = 0.001 to e^-2.3 = 0.1.
    A_log = (torch.rand(x.layers, x.heads, generator=g, device=device) * 15 + 1).log()
    steps = (torch.rand(x.layers, x.heads, x.key, generator=g, device=device) * 4.6 - 6.9).exp()
    dt_bias = steps.expm1().log()
    q, k = (normal(tokens, x.heads, x.key) for _ in range(2))
    v, a, b = normal(tokens, x.heads, x.value), normal(tokens, x.heads, x.key), normal(tokens, x.heads)
    lengths = torch.full((rows,), x.width, device=device, dtype=torch.int64)
    offsets = tuple(range(0, tokens + 1, x.width))
    windows = tuple(
        Windows(KdaInputs(q, k, v, a, b, A_log[i], dt_bias[i], offsets, (), LOWER_BOUND), lengths)
        for i in range(x.layers)
    )
    pool = torch.randn(x.layers, 2 * rows + 1, x.heads, x.value, x.key, generator=g, device=device).mul_(0.3)
    conv = normal(x.layers, 2 * rows + 1, x.columns, x.channels)
    records = _room(geometry, rows, device)
    o = torch.empty(rows, x.width, x.heads, x.value, dtype=torch.bfloat16, device=device)
    slots = 1 + 2 * torch.arange(rows, device=device)
    accepted = torch.arange(rows, device=device) % x.width + 1
    return World(geometry, windows, pool, conv, slots, records, o, Decays(A_log, dt_bias, LOWER_BOUND), accepted)


def _room(x: Geometry, rows: int, device: str) -> Records:
    """Records of all layers, to be filled."""

    def empty(width: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(x.layers, rows, x.heads, x.width, width, dtype=dtype, device=device)

    return Records(empty(x.value, torch.float32), empty(x.key, torch.bfloat16), empty(x.key, torch.bfloat16))
