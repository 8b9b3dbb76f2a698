"""The whole model on packed rows: states in, logits and states out. It owns no state and no schedule.

Nothing in it depends on which rows are computed together, so the executor may batch whatever it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.model.config import KV_NORM_EPS, ModelConfig
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.precision import Precision, container, round_to
from replaycheck_kernels.recipe import Recipe

from .attention import KeyValueArena, PageTable, page_table
from .convolution import conv_plan
from .device import uses_triton
from .kda import KdaWeights, LayerState, Packed, kda_layer
from .layers import add, gated_up, linear, rms_norm
from .parallel_sum import Pass, RowProduct, lockstep
from .rollback import Verify
from .state import SequenceState
from .weights import MlaWeights, NetworkWeights, load

Shard = Callable[[ModelConfig, NetworkWeights], tuple[ModelConfig, NetworkWeights]]
"""What a rank has of a model: its own geometry and weights."""


@dataclass(frozen=True)
class Tap:
    """Ask for the state at the start of chunk ``chunk`` of a row (or its final state; of a window, after so many tokens).

    ``tokens``: tokens of the row that the state covers. ``conv_end``: tokens of the row with which the conv window ends.
    """

    chunk: int
    source: str
    tokens: int
    conv_end: int


@dataclass(frozen=True)
class RowInput:
    """tokens: ids [n]. start: absolute position of the first. form: chunk or recurrent. taps: states to return.

    ``first_logit``: logits are returned for the row's tokens from here on (n: none). ``verify``: the row is a window of
    speculation; logits and the final state are those of what it keeps.
    """

    tokens: Sequence[int]
    start: int
    form: str
    state: SequenceState
    taps: tuple[Tap, ...] = ()
    first_logit: int = 0
    verify: Verify | None = None

    @property
    def last_logit(self) -> int:
        return self.verify.scored if self.verify else len(self.tokens)

    @property
    def call(self) -> tuple[str, str]:
        """Rows with equal ones are computed by one call and must be neighbours."""
        return self.form, str(self.verify.method) if self.verify else ""


@dataclass(frozen=True)
class RowOutput:
    """logits: [n − first_logit, vocabulary]; final state; one state a tap. Identities are the caller's business."""

    logits: Tensor
    final: SequenceState
    taps: tuple[SequenceState, ...]


class Network:
    """A Kimi-Linear model under one recipe on one device, with the kernels that run each form."""

    def __init__(
        self,
        path: Path,
        recipe: Recipe,
        kernels: Mapping[str, StateKernel],
        device: str = "cpu",
        shard: Shard | None = None,
    ) -> None:
        self.recipe = recipe
        self.kernels = dict(kernels)
        self.dtype = container(recipe.activation)
        self.device = torch.device(device)
        loaded = load(path, recipe.activation, self.device)
        self.config, self.weights = shard(*loaded) if shard else loaded
        self.arena = self.new_arena()

    def new_arena(self) -> KeyValueArena:
        """An empty cache for the attention layers."""
        c = self.config
        # Keys and values hold activations: on a GPU a bf16 store loses nothing and feeds tensor cores.
        short = uses_triton(self.device) and self.recipe.activation is Precision.BF16
        dtype = torch.bfloat16 if short else self.dtype
        return KeyValueArena(c.mla_layers, c.mla_heads, c.qk_head_dim, c.v_head_dim, dtype, self.device)

    def reset(self) -> None:
        """Forget the pages of all sequences."""
        self.arena = self.new_arena()

    def empty_state(self) -> SequenceState:
        """The state of no tokens."""
        c, layers = self.config, len(self.config.kda_layers)
        return SequenceState(
            self._zeros(layers, c.conv_width - 1, 3 * c.kda_width),
            self._zeros(layers, c.kda_heads, c.kda_head_dim, c.kda_head_dim),
            np.empty(0, np.int64),
            b"",
        )

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        """Compute rows; those of one call must be neighbours."""
        return lockstep([self.steps(rows)], self.whole_product)[0]

    def steps(self, rows: Sequence[RowInput]) -> Pass[list[RowOutput]]:
        """The pass, from one row-parallel product to the next."""
        packed, pages = self._pack(rows), [self.arena.take(len(row.tokens)) for row in rows]
        conv, temporal = (torch.stack([getattr(row.state, part) for row in rows], 1) for part in ("conv", "temporal"))
        full = [np.concatenate([row.state.pages, fresh]) for row, fresh in zip(rows, pages, strict=True)]
        table = page_table(full, [len(fresh) for fresh in pages], self.device)
        x = self.weights.embedding[self._indices(t for row in rows for t in row.tokens)]
        states: list[LayerState] = []
        for index, layer in enumerate(self.weights.layers):
            normed = rms_norm(x, layer.attention_norm, self.config.rms_norm_eps, self.recipe.activation)
            if isinstance(layer.attention, KdaWeights):
                before = conv[len(states)], temporal[len(states)]
                mixed, state = self._kda(normed, layer.attention, before, packed)
                states.append(state)
            else:
                mixed = self._mla(index, normed, layer.attention, pages, table, packed)
            x = self._residual(x, (yield RowProduct(mixed, layer.attention.o)))
            normed = rms_norm(x, layer.mlp_norm, self.config.rms_norm_eps, self.recipe.activation)
            inner = gated_up(normed, layer.gate, layer.up, self.recipe.activation)
            x = self._residual(x, (yield RowProduct(inner, layer.down)))
        return _outputs(rows, full, self._logits(x, rows, packed), states)

    def whole_product(self, parts: Sequence[RowProduct]) -> Tensor:
        """What the first of the parts makes, rounded: [N, hidden]; of a network that isn't sharded it is everything."""
        return linear(parts[0].x, parts[0].weight, self.recipe.activation)

    def _pack(self, rows: Sequence[RowInput]) -> Packed:
        offsets = (0, *accumulate(len(row.tokens) for row in rows))
        windows = [(r, end) for r, row in enumerate(rows) for end in _window_ends(row)]
        return Packed(
            offsets,
            tuple(row.start for row in rows),
            tuple(row.form for row in rows),
            tuple(tuple((tap.chunk, tap.source) for tap in row.taps) for row in rows),
            tuple(row.verify for row in rows),
            conv_plan(offsets, windows, self.device),
        )

    def _residual(self, x: Tensor, y: Tensor) -> Tensor:
        return add(x, y, self.recipe.activation, self.recipe.rounding)

    def _kda(
        self, x: Tensor, w: KdaWeights, before: tuple[Tensor, Tensor], packed: Packed
    ) -> tuple[Tensor, LayerState]:
        return kda_layer(x, w, *before, packed, self.kernels, self.recipe, self.config.rms_norm_eps)

    def _mla(
        self,
        layer: int,
        x: Tensor,
        w: MlaWeights,
        fresh: Sequence[NDArray[np.int64]],
        table: PageTable,
        packed: Packed,
    ) -> Tensor:
        c, act = self.config, self.recipe.activation
        q = linear(x, w.q, act).unflatten(1, (c.mla_heads, c.qk_head_dim))
        latent, shared = linear(x, w.kv_a, act).split([c.kv_lora_rank, c.qk_rope_head_dim], 1)
        expanded = linear(rms_norm(latent, w.kv_norm, KV_NORM_EPS, act), w.kv_b, act)
        nope, values = expanded.unflatten(1, (c.mla_heads, -1)).split([c.qk_nope_head_dim, c.v_head_dim], 2)
        keys = torch.cat([nope, shared[:, None].expand(-1, c.mla_heads, -1)], 2)
        for r, own in enumerate(fresh):
            cut = slice(packed.offsets[r], packed.offsets[r + 1])
            self.arena.write(layer, own, keys[cut], values[cut])
        out = self.arena.attend(layer, q, table, c.qk_head_dim**-0.5)
        return round_to(out, act).flatten(1)

    def _logits(self, x: Tensor, rows: Sequence[RowInput], packed: Packed) -> list[Tensor]:
        wanted = [
            range(begin + row.first_logit, begin + row.last_logit)
            for begin, row in zip(packed.offsets, rows, strict=False)
        ]
        chosen = x[self._indices(i for span in wanted for i in span)]
        normed = rms_norm(chosen, self.weights.norm, self.config.rms_norm_eps, self.recipe.activation)
        logits = linear(normed, self.weights.head, self.recipe.logits)
        return list(logits.split([len(span) for span in wanted]))

    def _indices(self, numbers: Iterable[int]) -> Tensor:
        return torch.tensor(list(numbers), dtype=torch.long).to(self.device)


def _window_ends(row: RowInput) -> tuple[int, ...]:
    """Tokens with which the conv windows of a row's states end: the final state's first, then the taps'."""
    own = row.verify.kept.conv if row.verify else len(row.tokens)
    return (own, *(tap.conv_end for tap in row.taps))


def _outputs(
    rows: Sequence[RowInput],
    pages: Sequence[NDArray[np.int64]],
    logits: Sequence[Tensor],
    layers: Sequence[LayerState],
) -> list[RowOutput]:
    """Give each row its part. States are views of tensors of the whole batch; who keeps one copies it."""
    finals, snapshots, windows = (
        torch.stack([getattr(layer, part) for layer in layers], 1) for part in ("finals", "snapshots", "windows")
    )
    window, tap = 0, 0
    outputs = []
    for r, row in enumerate(rows):
        before = len(row.state.pages)
        cropped = pages[r][: before + row.verify.kept.pages] if row.verify else pages[r]
        outputs.append(
            RowOutput(
                logits[r],
                SequenceState(windows[window], finals[r], cropped, b""),
                tuple(
                    SequenceState(windows[window + 1 + i], snapshots[tap + i], pages[r][: before + each.tokens], b"")
                    for i, each in enumerate(row.taps)
                ),
            )
        )
        window, tap = window + 1 + len(row.taps), tap + len(row.taps)
    return outputs
