"""A made-up decode with speculation: paths of true tokens, wrong drafts, and how many of each window were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, StateKernel
from replaycheck_kernels.precision import round_to
from replaycheck_kernels.recipe import EXACT, Recipe
from replaycheck_kernels.speculation.methods import METHODS, Replay, Rollback, Step
from replaycheck_kernels.speculation.pools import Geometry, Pools
from replaycheck_kernels.speculation.window import PER_TOKEN, take, windows
from tests.kernels.cases import KDA, Layer, random_inputs, random_states

KEY, VALUE, HISTORY, CHANNELS = 16, 24, 3, 6
Pattern = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
"""For each step: the length of every request's window, and how many of its tokens are kept."""


def null_untouched(pools: Pools) -> bool:
    """Nothing ever wrote the null slot."""
    return bool(pools.temporal[:, 0].isnan().all() and pools.conv[:, 0].isnan().all())


@dataclass(frozen=True)
class Story:
    """L layers, R requests.

    Attributes:
        paths, drafts: of each layer, R sequences of T tokens: true ones, and wrong drafts for the same positions.
        mixed, mixed_drafts: [L, R, T, D] inputs of the convolution. temporal, conv: the states to start from.
    """

    shape: Geometry
    recipe: Recipe
    paths: tuple[KdaInputs, ...]
    drafts: tuple[KdaInputs, ...]
    mixed: Tensor
    mixed_drafts: Tensor
    temporal: Tensor
    conv: Tensor

    @property
    def rows(self) -> int:
        return self.mixed.shape[1]

    def step(self, computed: Sequence[int], lengths: Sequence[int], kept: tuple[int, ...], width: int) -> Step:
        """The verify of windows that start at ``computed``: ``kept`` true tokens, then drafts that weren't accepted."""
        layers = []
        for path, drafts in zip(self.paths, self.drafts, strict=True):
            order = [i for r in range(self.rows) for i in self._places(r, computed[r], lengths[r], kept[r])]
            both = self._joined(path, drafts)
            layers.append(windows(take(both, torch.tensor(order), lengths), width))
        mixed = torch.full((self.shape.layers, self.rows, width, self.shape.channels), float("nan"))
        for r in range(self.rows):
            span = slice(computed[r], computed[r] + lengths[r])
            mixed[:, r, : lengths[r]] = self.mixed_drafts[:, r, span]
            mixed[:, r, : kept[r]] = self.mixed[:, r, computed[r] : computed[r] + kept[r]]
        return Step(layers, mixed, kept)

    def _places(self, row: int, computed: int, length: int, kept: int) -> list[int]:
        tokens = self.mixed.shape[2]
        total = self.rows * tokens
        return [row * tokens + computed + i + (0 if i < kept else total) for i in range(length)]

    @staticmethod
    def _joined(path: KdaInputs, drafts: KdaInputs) -> KdaInputs:
        parts = {name: torch.cat([getattr(path, name), getattr(drafts, name)]) for name in PER_TOKEN}
        return replace(path, **parts)

    def decode(
        self, kernel: StateKernel, layer: int, row: int, begin: int, end: int, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Plain decoding of true tokens, one call a token: o [n, HV, V] and the state [HV, V, K]."""
        tokens, outputs = self.mixed.shape[2], []
        for t in range(begin, end):
            done = kernel(take(self.paths[layer], torch.tensor([row * tokens + t]), [1]), state[None], (), self.recipe)
            state = done.final[0]
            outputs.append(done.o)
        return torch.cat(outputs), state

    def history(self, layer: int, row: int, end: int) -> Tensor:
        """The last inputs [h, D] of the true path."""
        line = torch.cat([self.conv[layer, row], self.mixed[layer, row, :end]])
        return line[-self.shape.history :]


def story(
    rows: int = 2,
    tokens: int = 40,
    layers: int = 2,
    layer: Layer = KDA,
    recipe: Recipe = EXACT,
    regime: str = "kimi",
    seed: int = 0,
) -> Story:
    """Random paths and drafts; values in the recipe's activation precision."""
    shape = Geometry(layers, layer.value_heads, VALUE, KEY, CHANNELS, HISTORY)

    def made(offset: int) -> tuple[KdaInputs, ...]:
        return tuple(
            random_inputs([tokens] * rows, KEY, VALUE, regime, recipe, seed + offset + i, layer=layer)
            for i in range(layers)
        )

    draws = torch.Generator().manual_seed(seed + 7)

    def normal(*size: int) -> Tensor:
        return round_to(torch.randn(*size, generator=draws), recipe.activation)

    temporal = torch.stack([random_states(rows, KEY, VALUE, seed + 50 + i, layer.value_heads) for i in range(layers)])
    return Story(
        shape,
        recipe,
        made(0),
        made(100),
        normal(layers, rows, tokens, CHANNELS),
        normal(layers, rows, tokens, CHANNELS),
        temporal,
        normal(layers, rows, HISTORY, CHANNELS),
    )


def method(
    name: str, tale: Story, width: int, dtype: torch.dtype, kernel: StateKernel, capacity: int | None = None
) -> Rollback:
    """A way to roll back, started from the story's states."""
    found = METHODS[name](tale.shape, width, tale.rows, dtype, kernel, tale.recipe)
    if isinstance(found, Replay):
        found.capacity = capacity or width
    found.start(tale.temporal, tale.conv)
    return found
