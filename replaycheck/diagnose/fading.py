"""How an error lives on: its size where it came up, and whether it fades as fast as the model forgets.

Layers below the first wrong one are right at all later tokens, so this layer's inputs are the reference's. An error δ of
its state that nothing adds to goes on as δ ← δ·diag(e^g)·(I − β k̂k̂ᵀ), which is the recurrence without values: computed here
in float64 on the same tokens, it is the model's own half-life. An error of order 1 that keeps to it is one wrong state; one
that outlives it is made again and again, by rounding or by arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from replaycheck.schedule.steps import Row
from replaycheck.schema.arm import PoolDtype
from replaycheck.stats.estimate import Estimated
from replaycheck.stats.half_life import decay_rate, half_life
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow
from replaycheck_kernels.oracle import prepared, step
from replaycheck_kernels.recipe import Recipe

from .again import Replayed
from .locate import FirstWrong
from .nearest import truncated
from .trail import Key, Op, Seen

__all__ = ["Fading", "fading", "followed"]

MOST = 32
"""States of later steps that are kept, evenly spaced: 0.8 MB each on the shipped model, in both arms."""
LONGEST = 4096
"""Tokens of a path whose decays are computed."""
OUTLIVES = 2.0
"""An error whose half-life is over so many of the model's is nearer to one that never fades than to one that nothing adds
to, on the scale of logarithms: after n half-lives 1 is left of the first and 2^-n of the second; 2^(-n/2) lies between."""
LEFT = 0.5
"""The model must have forgotten half before the two can be told apart."""
EPS = {PoolDtype.FP32: 2.0**-24, PoolDtype.FP16: 2.0**-11, PoolDtype.BF16: 2.0**-8}
"""Largest relative error of one rounding. Below twice that an error is what later stores add in either arm."""


@dataclass(frozen=True)
class Fading:
    """What was seen at later tokens.

    Attributes:
        offsets: tokens since the first wrong state. seen: error there over that at offset 0. model: what forgetting leaves.
        own, models: half-lives in tokens, of the error and of the model.
        calls: later rows that ran the kernel form of the first wrong step.
    """

    offsets: tuple[int, ...]
    seen: tuple[float, ...]
    model: tuple[float, ...]
    own: Estimated
    models: Estimated
    calls: int

    @property
    def fades(self) -> bool | None:
        """Whether the error keeps to the model's half-life; None if too little was forgotten to say."""
        if len(self.offsets) < 3 or self.models.value is None or min(self.model) > LEFT:
            return None
        return self.own.value is not None and self.own.value <= OUTLIVES * self.models.value


def followed(found: Replayed, wrong: FirstWrong) -> frozenset[Key]:
    """The steps after the wrong one that go on from its state, at most ``MOST`` of them."""
    keys = [seen.key for seen in _carriers(found.candidate.steps, wrong)]
    kept = np.linspace(0, len(keys) - 1, min(len(keys), MOST)).astype(int)
    return frozenset(keys[at] for at in kept)


def _carriers(steps: Sequence[Seen], wrong: FirstWrong) -> Iterator[Seen]:
    """Computed states of the request that goes on from the wrong one: its own, or the first that restores it."""
    number = next(i for i, seen in enumerate(steps) if seen.key == wrong.key)
    later, key = steps[number + 1 :], wrong.key
    request = key.request if key.op in (Op.LOAD, Op.COMPUTE, Op.STORE) else None
    if request is None or not any(_goes_on(seen, request, key.position) for seen in later):
        stored = {seen.key.name for seen in steps if seen.key.op is Op.COMMIT and _same_place(seen.key, key)}
        users = (s for s in later if s.key.op is Op.LOAD and s.row and s.row.restored in stored)
        request = next((seen.key.request for seen in users), None)
    yield from (seen for seen in later if request is not None and _goes_on(seen, request, key.position))


def _goes_on(seen: Seen, request: int, position: int) -> bool:
    return seen.key.op is Op.COMPUTE and seen.key.request == request and seen.key.position > position


def _same_place(a: Key, b: Key) -> bool:
    return (a.request, a.position) == (b.request, b.position)


def fading(network: Network, found: Replayed, wrong: FirstWrong, layer: int, pool: PoolDtype) -> Fading | None:
    """What became of the error of recurrent layer ``layer`` (its own count); None if it isn't finite or isn't followed.

    ``found`` has kept the states of the wrong step and of :func:`followed`.
    """
    first = _error(wrong.step, wrong.reference, layer)
    steps = [seen for seen in _carriers(found.candidate.steps, wrong) if seen.states is not None]
    if first is None or not np.isfinite(first).all() or not first.any() or not steps:
        return None
    tokens = found.candidate.schedule.requests[steps[0].key.request].tokens[: steps[-1].key.position]
    if len(tokens) > LONGEST:
        return None
    right = {seen.key: seen for seen in found.reference.steps}
    start, size = wrong.key.position, float(np.linalg.norm(first))
    errors = {s.key.position - start: e for s in steps if (e := _error(s, right.get(s.key), layer)) is not None}
    left = dict(_forgotten(network, wrong.layers[layer], tokens, start, first))
    offsets = tuple(sorted(errors))
    seen = tuple(float(np.linalg.norm(errors[at])) / size for at in offsets)
    model = tuple(left[at] / size for at in offsets)
    floor = 2 * EPS[pool] * float(np.linalg.norm(_states(wrong.reference, layer))) / size
    return Fading(
        offsets, seen, model, _half_life(offsets, seen, floor), _half_life(offsets, model, 0.0), _calls(steps, wrong)
    )


def _half_life(offsets: Sequence[int], sizes: Sequence[float], floor: float) -> Estimated:
    x, y = np.array((0, *offsets), np.float64), np.array((1.0, *sizes))
    return half_life(decay_rate(y, x, floor))


def _calls(steps: Sequence[Seen], wrong: FirstWrong) -> int:
    form = _form(wrong.step.row)
    return sum(form is not None and _form(seen.row) == form for seen in steps)


def _form(row: Row | None) -> str | None:
    return str(row.kernel) if row else None


def _states(seen: Seen | None, layer: int) -> np.ndarray:
    assert seen is not None and seen.states is not None
    return np.asarray(seen.states.temporal[layer], np.float64)


def _error(mine: Seen, other: Seen | None, layer: int) -> np.ndarray | None:
    """[H, V, K] in float64."""
    if mine.states is None or other is None or other.states is None:
        return None
    return np.asarray(_states(mine, layer) - _states(other, layer))


@torch.no_grad()
def _forgotten(
    network: Network, layer: int, tokens: Sequence[int], start: int, error: np.ndarray
) -> Iterator[tuple[int, float]]:
    """Offset, and the size of what the decays and the delta rule leave of an error after so many tokens."""
    q, k, v, beta, g = prepared(_inputs(network, layer, tokens))
    left, nothing = torch.from_numpy(error), torch.zeros_like(v[0])
    for t in range(start, len(tokens)):
        left, _ = step(left, q[t], k[t], nothing, g[t], beta[t])
        yield t + 1 - start, float(left.norm())


def _inputs(network: Network, layer: int, tokens: Sequence[int]) -> KdaInputs:
    """What the kernel of a recurrent layer (counted in the model) gets for a whole path."""
    caught: list[KdaInputs] = []
    real = network.kernels["chunk"]

    def forward(x: KdaInputs, initial: torch.Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        caught.append(x.to("cpu"))
        return real.forward(x, initial, rows, recipe)

    short = truncated(network, layer + 1)
    short.kernels = dict.fromkeys(network.kernels, replace(real, forward=forward))
    short.forward([RowInput(tuple(tokens), 0, "chunk", short.empty_state(), first_logit=len(tokens))])
    return caught[-1]
