"""Exact checks of the four rollback methods against decoding, in torch on any device; joined to ``checks``.

Every step starts from the state that the method says is committed, as stored. What must follow: outputs of kept tokens,
the next state (one cast of the fp32-live state) and the next convolution history, bit for bit; for RecoverSSM the state
lies between the casts of both ends of its derived bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

import torch
from torch import Tensor

from ..recipe import Recipe
from ..recurrent import RECURRENT_TORCH
from .bound import association_bound
from .cases import CHANNELS, HISTORY, KEY, VALUE, case
from .commit import Decays, magnitude
from .methods import METHODS, Replay, Rollback, Step
from .pools import Geometry
from .verify import each_position, verify
from .window import Windows

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Values = dict[str, float | int | str]


@dataclass(frozen=True)
class Check:
    """One answer. ``values``: the smallest example where it isn't exact, and what was measured."""

    name: str
    exact: bool
    sentence: str
    values: Values = field(default_factory=dict)


def method_check(name: str) -> Callable[[str, Recipe, tuple[int, ...]], Check]:
    """The check of one method: (device, recipe, widths) → answer."""

    def check(device: str, recipe: Recipe, widths: tuple[int, ...]) -> Check:
        for width, dtype in product(widths, DTYPES):
            for kept in range(1, width + 1):
                wrong = _wrong(name, device, recipe, width, min(kept, width), DTYPES[dtype])
                if wrong:
                    values: Values = {"window": width, "kept": kept, "pool": dtype}
                    return Check(f"rollback-{name}", False, f"{wrong} isn't that of decoding the kept tokens", values)
        sentence = "after any rollback outputs, state and convolution are those of decoding the kept tokens"
        return Check(f"rollback-{name}", True, sentence)

    return check


def _wrong(name: str, device: str, recipe: Recipe, width: int, kept: int, dtype: torch.dtype) -> str | None:
    """Two steps, the second without drafts; what differs first, if anything does."""
    lengths = (width, max(1, width - 1))
    first, second = (case(recipe, width, n, dtype, device, seed=i) for i, n in enumerate((lengths, (1, 1))))
    shape = Geometry(first.layers, first.pools.temporal.shape[2], VALUE, KEY, CHANNELS, HISTORY)
    way = METHODS[name](shape, width, 2, dtype, RECURRENT_TORCH, recipe)
    if isinstance(way, Replay):
        way.capacity = width
    way.start(first.pools.temporal[:, first.slots].float(), first.pools.conv[:, first.slots, :HISTORY].float())
    draws = torch.Generator().manual_seed(width)
    for windows, counts in (
        (first.windows, tuple(min(kept, n) for n in lengths)),
        (tuple(map(_same_layer, second.windows, first.windows)), (1, 1)),
    ):
        mixed = torch.randn(shape.layers, 2, width, CHANNELS, generator=draws).to(device)
        wrong = _step(way, Step(windows, mixed, counts))
        if wrong:
            return wrong
    return None


def _same_layer(windows: Windows, other: Windows) -> Windows:
    """These tokens with the other's parameters."""
    kept = other.inputs
    return Windows(replace(windows.inputs, A_log=kept.A_log, dt_bias=kept.dt_bias), windows.lengths)


def _step(way: Rollback, step: Step) -> str | None:
    before, history, kept = way.temporal().float(), way.conv(), step.kept_tensor()
    outputs = way.step(step)
    for layer, windows in enumerate(step.layers):
        o, states = each_position(RECURRENT_TORCH, windows, before[layer], way.recipe)
        rows = torch.arange(way.rows, device=kept.device)
        state = torch.stack(list(states), 1)[rows, kept - 1]
        for row, count in enumerate(step.kept):
            if not torch.equal(outputs[layer][row, :count], o[row, :count]):
                return "an output"
            line = torch.cat([history[layer, row], step.mixed[layer, row, :count]])
            if not torch.equal(way.conv()[layer, row], line[-HISTORY:]):
                return "a convolution history"
        if not _state_right(way, step, layer, before[layer], state):
            return "a state"
    return None


def _state_right(way: Rollback, step: Step, layer: int, before: Tensor, state: Tensor) -> bool:
    found = way.temporal()[layer]
    if type(way) is not METHODS["recover"]:
        return torch.equal(found.to(way.dtype), state.to(way.dtype))
    windows, kept = step.layers[layer], step.kept_tensor()
    x, records = windows.inputs, verify(windows, before, way.recipe).records
    size = magnitude(before, records, kept, Decays(x.A_log, x.dt_bias, x.lower_bound), way.recipe)
    slack = association_bound(kept, size)
    low, high = ((state.double() + sign * slack).float().to(way.dtype) for sign in (-1, 1))
    return bool(((low <= found) & (found <= high)).all())
