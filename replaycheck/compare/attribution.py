"""How much of a cold-vs-warm difference comes from what: one switch at a time, from the arms that a run has.

From the cold arm to the warm one leads a chain of arms, each with one switch more: the kernel of the history, the pool of
the cold arm, other cuts (grid), storing and restoring in fp32 (snapshot), the pool dtype, ranks (sharding), padding (batch).
At each position the steps add up to the whole difference of log-probabilities exactly,

    total = Σ step,    hence    mean(total²) = Σ mean(step²) + interaction;

the interaction is what is left: twice the sum of the steps' products. It is negative where steps cancel. Squares are used
since means of |step| don't add up. Where an arm is missing, its two steps are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replaycheck.schema.arm import Activation, Arm, Compiler, PoolDtype
from replaycheck.schema.result import Attribution, AttributionStep

from .columns import floats, integers, names, starts

__all__ = ["AttributionSums", "Chain", "chains", "numbered"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """Arms from cold to warm, by name, and the switch between each and the next."""

    arms: tuple[str, ...]
    switches: tuple[str, ...]


def chains(arms: Sequence[Arm]) -> tuple[Chain, ...]:
    """A chain for each warm arm whose cold arm is there; decoded token by token, since a cold arm has no windows."""
    there = {arm.name for arm in arms}
    warm = (arm for arm in arms if arm.compiler is Compiler.WARM and arm.rollback is None and not arm.repeat)
    found = (_chain(arm, there) for arm in warm)
    return tuple(chain for chain in found if chain is not None)


def _chain(warm: Arm, there: set[str]) -> Chain | None:
    wanted = [(name, switch) for name, switch in _wanted(warm) if name in there]
    if len(wanted) < 2 or wanted[-1][0] != warm.name or not wanted[0][0].startswith(Compiler.COLD):
        return None
    arms, switches = [wanted[0][0]], list[str]()
    skipped: list[str] = []
    for name, switch in _wanted(warm)[1:]:
        skipped.append(switch)
        if name in there and name != arms[-1]:
            arms.append(name)
            switches.append(" and ".join(skipped))
            skipped = []
        elif name == arms[-1]:
            skipped.pop()
    return Chain(tuple(arms), tuple(switches)) if len(arms) > 1 else None


def _wanted(warm: Arm) -> list[tuple[str, str]]:
    """The whole chain: name of the arm, and the switch that leads to it."""
    plain = warm.model_copy(update={"padding": None, "tensor_parallel": 1, "activation": Activation.INSIDE})
    cold = plain.model_copy(update={"compiler": Compiler.COLD})
    wide = {"pool": PoolDtype.FP32}
    steps = [
        (cold.model_copy(update={"history": cold.tail}), ""),
        (cold, "kernel switch"),
        (cold.model_copy(update=wide), "pool of the cold run"),
        (plain.model_copy(update={"compiler": Compiler.SPLIT, **wide}), "grid"),
        (plain.model_copy(update=wide), "snapshot"),
        (plain, "pool dtype"),
        (warm.model_copy(update={"padding": None, "tensor_parallel": 1}), "activation"),
        (warm.model_copy(update={"padding": None}), "sharding"),
        (warm, "batch"),
    ]
    return [(arm.name, switch) for arm, switch in steps]


@dataclass
class _Sums:
    """steps: sums of squares, then that of the total."""

    squares: Numbers
    positions: int = 0
    traces: int = 0


class AttributionSums:
    """Adds up parts of observations; memory for sums only."""

    def __init__(self, arms: Sequence[Arm]) -> None:
        self._chains = chains(arms)
        self._sums = [_Sums(np.zeros(len(chain.switches) + 1)) for chain in self._chains]

    def add(self, observations: pa.Table) -> None:
        """OBSERVATIONS rows of whole groups in key order."""
        if self._chains and observations.num_rows:
            said = _said(observations)
            for chain, sums in zip(self._chains, self._sums, strict=True):
                _add(chain, sums, said)

    def finish(self) -> tuple[Attribution, ...]:
        """One for each chain that has a position, in the order of the arms."""
        return tuple(
            _attribution(chain, sums) for chain, sums in zip(self._chains, self._sums, strict=True) if sums.positions
        )


@dataclass(frozen=True)
class _Said:
    """By arm: where (numbers of positions) and the log-probability there. traces: of all arms together."""

    where: dict[str, NDArray[np.int64]]
    logprob: dict[str, Numbers]
    traces: dict[str, frozenset[str]]


def _said(observations: pa.Table) -> _Said:
    arm, experiment, trace = (names(observations[name]) for name in ("arm", "experiment", "trace"))
    keys = [trace.code, *(integers(observations[name]) for name in ("branch", "turn", "position"))]
    logprob = floats(observations["logprob"])
    number = numbered(keys)
    forced = experiment.code == experiment.named("forced")
    where, said, traces = {}, {}, {}
    for code, name in enumerate(arm.of):
        mine = np.flatnonzero((arm.code == code) & forced)
        order = mine[np.argsort(number[mine])]
        where[name], said[name] = number[order], logprob[order]
        traces[name] = frozenset(trace.of[each] for each in np.unique(trace.code[mine]))
    return _Said(where, said, traces)


def numbered(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """[rows] of columns [rows]: equal keys get equal numbers."""
    order = np.lexsort(tuple(reversed(keys)))
    number = np.empty(len(order), np.int64)
    first = np.zeros(len(order), np.int64)
    first[starts(*(key[order] for key in keys))] = 1
    number[order] = first.cumsum()
    return number


def _add(chain: Chain, sums: _Sums, said: _Said) -> None:
    if any(name not in said.where for name in chain.arms):
        return
    shared = _shared(said.where[name] for name in chain.arms)
    values = np.stack([said.logprob[name][np.searchsorted(said.where[name], shared)] for name in chain.arms])
    values = values[:, np.isfinite(values).all(axis=0)]
    steps = np.diff(values, axis=0)
    sums.squares += np.append((steps**2).sum(axis=1), ((values[-1] - values[0]) ** 2).sum())
    sums.positions += values.shape[1]
    sums.traces += len(said.traces[chain.arms[-1]])  # a part holds whole traces


def _shared(places: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    every = iter(places)
    found = next(every)
    for each in every:
        found = np.intersect1d(found, each, assume_unique=True)
    return found


def _attribution(chain: Chain, sums: _Sums) -> Attribution:
    means = sums.squares / sums.positions
    return Attribution(
        reference=chain.arms[0],
        candidate=chain.arms[-1],
        traces=sums.traces,
        positions=sums.positions,
        total=float(np.sqrt(means[-1])),
        steps=tuple(_steps(chain, means)),
        interaction=float(means[-1] - means[:-1].sum()),
    )


def _steps(chain: Chain, means: Numbers) -> Iterator[AttributionStep]:
    for switch, name, mean in zip(chain.switches, chain.arms[1:], means[:-1], strict=True):
        yield AttributionStep(switch=switch, arm=name, rms=float(np.sqrt(mean)), square=float(mean))
