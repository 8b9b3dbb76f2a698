"""Other arithmetic on the inputs of the first wrong step: which known mistake gives its bits?

A variant is a recipe or weights with one mistake, or a call that reads what it is given in another way. The leading
recurrent layers are run again on the state that the row loaded; a variant explains the step if they come out bit for bit as
in the candidate, and the right ones don't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from replaycheck.replay.worker import Work
from replaycheck.schedule.steps import Row, RowKind, Schedule
from replaycheck.subjects.lab.kda import KdaWeights
from replaycheck.subjects.lab.kernels import lab_kernels
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.subjects.lab.state import SequenceState
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.recipe import Recipe

from .nearest import leading_layers, truncated
from .trail import States

__all__ = ["READINGS", "VARIANTS", "Explained", "explaining_variants"]

BF16: Final = Precision.BF16
Change = Callable[[Network], Network]


def _recipe(**changes: object) -> Change:
    def change(network: Network) -> Network:
        return _with_recipe(network, replace(network.recipe, **changes))  # type: ignore[arg-type]

    return change


def _with_recipe(network: Network, recipe: Recipe) -> Network:
    other = copy(network)
    other.recipe = recipe
    return other


def _weights(change: Callable[[KdaWeights], KdaWeights]) -> Change:
    def changed(network: Network) -> Network:
        other = copy(network)
        layers = tuple(
            replace(layer, attention=change(layer.attention)) if isinstance(layer.attention, KdaWeights) else layer
            for layer in network.weights.layers
        )
        other.weights = replace(network.weights, layers=layers)
        return other

    return changed


def _rounded(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def _without_first(taps: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(taps[:, :1]), taps[:, 1:]], 1)


def _without_last(taps: Tensor) -> Tensor:
    return torch.cat([taps[:, :-1], torch.zeros_like(taps[:, :1])], 1)


def _half(matrix: Tensor) -> Tensor:
    """The first half of the rows; the others are nobody's."""
    kept = len(matrix) // 2
    return torch.cat([matrix[:kept], torch.zeros_like(matrix[kept:])])


#: Code, words, the mistake.
VARIANTS: Final[tuple[tuple[str, str, Change], ...]] = (
    ("RC501", "beta without its sigmoid", _recipe(beta_site="nowhere")),
    ("RC502", "beta activated twice", _recipe(beta_site="twice")),
    ("RC503", "the other formula of the decay", _recipe(decay_rule="swapped")),
    ("RC504", "the decay without its bias", _recipe(decay_bias="dropped")),
    ("RC505", "a decay in nat as an exponent of 2", _recipe(decay_unit="mixed")),
    ("RC506", "the decay applied last", _recipe(decay_at="last")),
    ("RC507", "the query scaled twice", _recipe(scale_times=2)),
    ("RC507", "the query not scaled", _recipe(scale_times=0)),
    ("RC508", "the convolution without SiLU", _recipe(conv_activation="none")),
    ("RC111", "beta rounded to bf16", _recipe(beta=BF16, recurrent_beta=BF16)),
    ("RC111", "beta activated outside the kernel", _recipe(beta_site="outside")),
    ("RC112", "the decay rounded to bf16", _recipe(decay_site="outside")),
    ("RC112", "the summed decay rounded to bf16", _recipe(decay_cumsum=BF16)),
    ("RC113", "A_log rounded to bf16", _weights(lambda w: replace(w, A_log=_rounded(w.A_log)))),
    ("RC113", "dt_bias rounded to bf16", _weights(lambda w: replace(w, dt_bias=_rounded(w.dt_bias)))),
    (
        "RC113",
        "A_log and dt_bias rounded to bf16",
        _weights(lambda w: replace(w, A_log=_rounded(w.A_log), dt_bias=_rounded(w.dt_bias))),
    ),
    ("RC114", "keys rounded to bf16 in the recurrent kernel", _recipe(recurrent_qk=BF16)),
    ("RC114", "the norm of keys without epsilon", _recipe(norm_epsilon=0.0)),
    ("RC114", "the norm of keys with epsilon 1e-5", _recipe(norm_epsilon=1e-5)),
    ("RC504", "dt_bias not loaded", _weights(lambda w: replace(w, dt_bias=torch.zeros_like(w.dt_bias)))),
    ("RC513", "the convolution's taps reversed", _weights(lambda w: replace(w, conv=w.conv.flip(-1)))),
    ("RC513", "the convolution without its oldest tap", _weights(lambda w: replace(w, conv=_without_first(w.conv)))),
    ("RC513", "the convolution without its newest tap", _weights(lambda w: replace(w, conv=_without_last(w.conv)))),
    ("RC604", "decay rates of the next head", _weights(lambda w: replace(w, A_log=w.A_log.roll(-1, 0)))),
    ("RC604", "decay rates of the head before", _weights(lambda w: replace(w, A_log=w.A_log.roll(1, 0)))),
    ("RC604", "decay biases of the next head", _weights(lambda w: replace(w, dt_bias=w.dt_bias.roll(-1, 0)))),
    (
        "RC604",
        "decay rates and biases of the head before",
        _weights(lambda w: replace(w, A_log=w.A_log.roll(1, 0), dt_bias=w.dt_bias.roll(1, 0))),
    ),
    ("RC604", "the decay's first matrix cut in half", _weights(lambda w: replace(w, f_a=_half(w.f_a)))),
)


Given = Callable[[RowInput], RowInput]


def _empty(conv: bool, temporal: bool) -> Given:
    def change(given: RowInput) -> RowInput:
        state = given.state
        c = torch.zeros_like(state.conv) if conv else state.conv
        t = torch.zeros_like(state.temporal) if temporal else state.temporal
        return replace(given, state=SequenceState(c, t, state.pages, state.identity))

    return change


def _first_token(given: RowInput) -> RowInput:
    return replace(given, tokens=given.tokens[:1], first_logit=1)


#: Code, words, what a call makes of what it is given; only for rows that continue a state.
READINGS: Final[tuple[tuple[str, str, Given], ...]] = (
    ("RC311", "the recurrent state that it continues taken for empty", _empty(conv=False, temporal=True)),
    ("RC310", "the convolution window that it continues taken for empty", _empty(conv=True, temporal=False)),
    ("RC311", "the whole state that it continues taken for empty", _empty(conv=True, temporal=True)),
    ("RC207", "its first token alone", _first_token),
)


@dataclass(frozen=True)
class Explained:
    """A variant that gives the candidate's bits."""

    code: str
    words: str


def explaining_variants(
    work: Work, network: Network, schedule: Schedule, row: Row, loaded: States, computed: States
) -> list[Explained]:
    """The ways of reading its inputs, or else all variants of the right ``network``, that give the leading layers' bits.

    Rows that are windows of speculation or padded aren't run: they need more than their tokens. A variant counts only if
    the network as it is comes out otherwise.
    """
    layers = leading_layers(network)
    if not layers or row.kind is RowKind.VERIFY or row.columns or network.device.type != "cpu":
        return []
    short = truncated(network, layers)
    given = _input(schedule, row, loaded, layers, network)
    wanted = _state(computed, layers)
    if np.array_equal(_run(work, short, given), wanted):
        return []
    readings = [
        Explained(code, words)
        for code, words, reading in (READINGS if row.a else ())
        if np.array_equal(_run(work, short, reading(given)), wanted)
    ]
    return readings or [
        Explained(code, words)
        for code, words, variant in _runnable(short)
        if np.array_equal(_run(work, variant, given), wanted)
    ]


def _runnable(network: Network) -> Iterator[tuple[str, str, Network]]:
    for code, words, change in VARIANTS:
        yield code, words, change(network)


def _input(schedule: Schedule, row: Row, loaded: States, layers: int, network: Network) -> RowInput:
    plan = schedule.requests[row.request]
    state = SequenceState(
        torch.from_numpy(loaded.conv[:layers]).to(network.dtype),
        torch.from_numpy(loaded.temporal[:layers]).to(network.dtype),
        np.empty(0, np.int64),
        b"",
    )
    tokens = plan.seen_of(row)
    return RowInput(tokens, row.a, str(row.kernel), state, first_logit=len(tokens))


@torch.no_grad()
def _run(work: Work, network: Network, given: RowInput) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    network.kernels = lab_kernels(work.kernels, network.recipe).kernels()
    network.arena = network.new_arena()
    final = network.forward([given])[0].final
    return _bits(final.temporal.numpy(), final.conv.numpy())


def _state(states: States, layers: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return _bits(states.temporal[:layers], states.conv[:layers])


def _bits(temporal: np.ndarray, conv: np.ndarray) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    both = np.concatenate([temporal.ravel(), conv.ravel()]).astype(np.float32)
    return both.view(np.uint32)
