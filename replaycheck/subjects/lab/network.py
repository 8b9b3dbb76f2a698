"""The whole model on packed rows: states in, logits and states out. It owns no state and no schedule.

Nothing in it depends on which rows are computed together, so the executor may batch whatever it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.model.config import KV_NORM_EPS, ModelConfig
from replaycheck_kernels.compiled import turned
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.precision import Precision, container, round_to
from replaycheck_kernels.recipe import Recipe

from .attention import KeyValueArena, PageTable, page_table
from .columns import columns_of
from .convolution import conv_plan
from .device import uses_triton
from .kda import KdaWeights, Packed, kda_layer
from .layers import add, gated_up, linear, rms_norm
from .parallel_sum import Pass, RowProduct, lockstep
from .pass_states import PassStates, copies, stacked
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

    ``first_logit``: logits are returned for the row's tokens from here on (n: none), up to ``end_logit``. ``verify``: the
    row is a window of speculation; logits and the final state are those of what it keeps. ``left``, ``right``: columns of
    padding beside the tokens, which are masked.
    """

    tokens: Sequence[int]
    start: int
    form: str
    state: SequenceState
    taps: tuple[Tap, ...] = ()
    first_logit: int = 0
    verify: Verify | None = None
    end_logit: int | None = None
    left: int = 0
    right: int = 0

    @property
    def last_logit(self) -> int:
        if self.end_logit is not None:
            return self.end_logit
        return self.verify.scored if self.verify else len(self.tokens)

    @property
    def width(self) -> int:
        """Columns, padding included."""
        return self.left + len(self.tokens) + self.right

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
        self.arena.reset()

    def empty_state(self) -> SequenceState:
        """The state of no tokens."""
        c, layers = self.config, len(self.config.kda_layers)
        return SequenceState(
            self._zeros(layers, c.conv_width - 1, 3 * c.kda_width),
            self._temporal(layers, c.kda_heads, c.kda_head_dim, c.kda_head_dim),
            np.empty(0, np.int64),
            b"",
        )

    def _temporal(self, *shape: int) -> Tensor:
        zeros = self._zeros(*shape)
        return turned(zeros) if self.device.type == "cpu" and self.dtype is torch.float32 else zeros

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        """Compute rows; those of one call must be neighbours."""
        return lockstep([self.steps(rows)], self.whole_product)[0]

    def steps(self, rows: Sequence[RowInput]) -> Pass[list[RowOutput]]:
        """The pass, from one row-parallel product to the next."""
        packed = self._pack(rows)
        fresh = self.arena.take(packed.offsets[-1])
        conv = stacked([row.state.conv for row in rows], self.dtype)
        before, rings = [row.state.temporal for row in rows], [row.state.ring for row in rows]
        states = PassStates(before, packed.calls, self.kernels, self.dtype, rings)
        full = [
            np.concatenate([row.state.pages, fresh[begin:end]])
            for row, (begin, end) in zip(rows, pairwise(packed.offsets), strict=True)
        ]
        table = page_table(full, [len(row.tokens) for row in rows], self.device)
        columns = columns_of(rows, self.device)
        x = self.weights.embedding[self._indices(columns.ids)]
        windows: list[Tensor] = []
        for index, layer in enumerate(self.weights.layers):
            normed = columns.take(rms_norm(x, layer.attention_norm, self.config.rms_norm_eps, self.recipe.activation))
            if isinstance(layer.attention, KdaWeights):
                mixed, window = self._kda(normed, layer.attention, conv, states, len(windows), packed)
                windows.append(window)
            else:
                mixed = self._mla(index, normed, layer.attention, int(fresh[0]), table)
            x = self._residual(x, columns.put((yield RowProduct(mixed, layer.attention.o))))
            normed = rms_norm(x, layer.mlp_norm, self.config.rms_norm_eps, self.recipe.activation)
            inner = gated_up(normed, layer.gate, layer.up, self.recipe.activation)
            x = self._residual(x, (yield RowProduct(inner, layer.down)))
        return _outputs(rows, full, self._logits(columns.take(x), rows, packed), windows, states)

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
        self, x: Tensor, w: KdaWeights, conv: Tensor, states: PassStates, layer: int, packed: Packed
    ) -> tuple[Tensor, Tensor]:
        return kda_layer(x, w, conv[layer], states, layer, packed, self.recipe, self.config.rms_norm_eps)

    def _mla(
        self,
        layer: int,
        x: Tensor,
        w: MlaWeights,
        first: int,
        table: PageTable,
    ) -> Tensor:
        """first: the first of the tokens' fresh pages."""
        c, act = self.config, self.recipe.activation
        q = linear(x, w.q, act).unflatten(1, (c.mla_heads, c.qk_head_dim))
        latent, shared = linear(x, w.kv_a, act).split([c.kv_lora_rank, c.qk_rope_head_dim], 1)
        expanded = linear(rms_norm(latent, w.kv_norm, KV_NORM_EPS, act), w.kv_b, act)
        nope, values = expanded.unflatten(1, (c.mla_heads, -1)).split([c.qk_nope_head_dim, c.v_head_dim], 2)
        keys = torch.cat([nope, shared[:, None].expand(-1, c.mla_heads, -1)], 2)
        self.arena.write(layer, first, keys, values)
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
    layers: Sequence[Tensor],
    states: PassStates,
) -> list[RowOutput]:
    """Give each row its part, in memory of its own. layers: conv windows [Q, W − 1, D] of each layer."""
    windows, finals, snapshots = copies(torch.stack(tuple(layers), 1)), states.finals(), states.snapshots()
    rings = states.rings()
    window, tap = 0, 0
    outputs = []
    for r, row in enumerate(rows):
        before = len(row.state.pages)
        cropped = pages[r][: before + row.verify.kept.pages] if row.verify else pages[r]
        outputs.append(
            RowOutput(
                logits[r],
                SequenceState(windows[window], finals[r], cropped, b"", ring=rings[r]),
                tuple(
                    SequenceState(windows[window + 1 + i], snapshots[tap + i], pages[r][: before + each.tokens], b"")
                    for i, each in enumerate(row.taps)
                ),
            )
        )
        window, tap = window + 1 + len(row.taps), tap + len(row.taps)
    return outputs
