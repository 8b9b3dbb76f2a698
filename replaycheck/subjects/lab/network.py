"""The whole model on packed rows: states in, logits and states out. It owns no state and no schedule.

Nothing in it depends on which rows are computed together, so the executor may batch whatever it likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.model.config import KV_NORM_EPS
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.conv import conv_state
from replaycheck_kernels.precision import container, round_to
from replaycheck_kernels.recipe import Recipe

from .attention import KeyValueArena
from .kda import KdaWeights, LayerState, Packed, kda_layer
from .layers import linear, mlp, rms_norm
from .state import SequenceState
from .weights import MlaWeights, load


@dataclass(frozen=True)
class Tap:
    """Ask for the state at the start of chunk ``chunk`` of a row (or its final state).

    ``tokens``: tokens of the row that the state covers. ``conv_end``: tokens of the row with which the conv window ends.
    """

    chunk: int
    source: str
    tokens: int
    conv_end: int


@dataclass(frozen=True)
class RowInput:
    """tokens: ids [n]. start: absolute position of the first. form: chunk or recurrent. taps: states to return.

    ``first_logit``: logits are returned for the row's tokens from here on (n: none).
    """

    tokens: Sequence[int]
    start: int
    form: str
    state: SequenceState
    taps: tuple[Tap, ...] = ()
    first_logit: int = 0


@dataclass(frozen=True)
class RowOutput:
    """logits: [n − first_logit, vocabulary]; final state; one state a tap. Identities are the caller's business."""

    logits: Tensor
    final: SequenceState
    taps: tuple[SequenceState, ...]


class Network:
    """A Kimi-Linear model under one recipe, with the kernels that run each form."""

    def __init__(self, path: Path, recipe: Recipe, kernels: Mapping[str, StateKernel]) -> None:
        self.recipe = recipe
        self.kernels = dict(kernels)
        self.dtype = container(recipe.activation)
        self.config, self.weights = load(path, self.dtype)
        self.arena = self.new_arena()

    def new_arena(self) -> KeyValueArena:
        """An empty cache for the attention layers."""
        c = self.config
        return KeyValueArena(c.mla_layers, c.mla_heads, c.qk_head_dim, c.v_head_dim, self.dtype)

    def empty_state(self) -> SequenceState:
        """The state of no tokens."""
        c, layers = self.config, len(self.config.kda_layers)
        return SequenceState(
            torch.zeros(layers, c.conv_width - 1, 3 * c.kda_width, dtype=self.dtype),
            torch.zeros(layers, c.kda_heads, c.kda_head_dim, c.kda_head_dim, dtype=self.dtype),
            np.empty(0, np.int64),
            b"",
        )

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]:
        """Compute rows; those of one form must be neighbours."""
        packed, pages = self._pack(rows), [self.arena.take(len(row.tokens)) for row in rows]
        full = [np.concatenate([row.state.pages, fresh]) for row, fresh in zip(rows, pages, strict=True)]
        x = self.weights.embedding[torch.tensor([t for row in rows for t in row.tokens])]
        states: list[LayerState] = []
        for index, layer in enumerate(self.weights.layers):
            normed = rms_norm(x, layer.attention_norm, self.config.rms_norm_eps, self.recipe.activation)
            if isinstance(layer.attention, KdaWeights):
                mixed, state = self._kda(normed, layer.attention, len(states), rows, packed)
                states.append(state)
            else:
                mixed = self._mla(index, normed, layer.attention, pages, full, packed)
            x = self._residual(x, mixed)
            normed = rms_norm(x, layer.mlp_norm, self.config.rms_norm_eps, self.recipe.activation)
            x = self._residual(x, mlp(normed, layer.gate, layer.up, layer.down, self.recipe.activation))
        logits = self._logits(x, rows, packed)
        return [self._output(r, row, full[r], logits[r], states, packed) for r, row in enumerate(rows)]

    def _pack(self, rows: Sequence[RowInput]) -> Packed:
        return Packed(
            (0, *accumulate(len(row.tokens) for row in rows)),
            tuple(row.start for row in rows),
            tuple(row.form for row in rows),
            tuple(tuple((tap.chunk, tap.source) for tap in row.taps) for row in rows),
        )

    def _residual(self, x: Tensor, y: Tensor) -> Tensor:
        return round_to(x + y, self.recipe.activation, self.recipe.rounding)

    def _kda(
        self, x: Tensor, w: KdaWeights, number: int, rows: Sequence[RowInput], packed: Packed
    ) -> tuple[Tensor, LayerState]:
        conv = torch.stack([row.state.conv[number] for row in rows])
        initial = [row.state.temporal[number] for row in rows]
        return kda_layer(x, w, conv, initial, packed, self.kernels, self.recipe, self.config.rms_norm_eps)

    def _mla(
        self,
        layer: int,
        x: Tensor,
        w: MlaWeights,
        fresh: Sequence[NDArray[np.int64]],
        pages: Sequence[NDArray[np.int64]],
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
        out = self.arena.attend(layer, q, pages, [len(own) for own in fresh], c.qk_head_dim**-0.5)
        return linear(round_to(out, act).flatten(1), w.o, act)

    def _logits(self, x: Tensor, rows: Sequence[RowInput], packed: Packed) -> list[Tensor]:
        wanted = [
            range(begin + row.first_logit, begin + len(row.tokens))
            for begin, row in zip(packed.offsets, rows, strict=False)
        ]
        chosen = x[torch.tensor([i for span in wanted for i in span], dtype=torch.long)]
        normed = rms_norm(chosen, self.weights.norm, self.config.rms_norm_eps, self.recipe.activation)
        logits = linear(normed, self.weights.head, self.recipe.logits)
        return list(logits.split([len(span) for span in wanted]))

    def _output(
        self,
        r: int,
        row: RowInput,
        pages: NDArray[np.int64],
        logits: Tensor,
        states: Sequence[LayerState],
        packed: Packed,
    ) -> RowOutput:
        begin, end = packed.offsets[r], packed.offsets[r + 1]
        before = len(row.state.pages)

        def conv(tokens: int) -> Tensor:
            windows = [conv_state(s.inputs[begin:end], row.state.conv[i], 0, tokens) for i, s in enumerate(states)]
            return torch.stack(windows)

        def state(temporal: list[Tensor], tokens: int, conv_end: int) -> SequenceState:
            return SequenceState(conv(conv_end), torch.stack(temporal), pages[: before + tokens], b"")

        final = state([s.finals[r] for s in states], end - begin, end - begin)
        taps = tuple(
            state([s.snapshots[r][i] for s in states], tap.tokens, tap.conv_end) for i, tap in enumerate(row.taps)
        )
        return RowOutput(logits, final, taps)
