"""Recordings of a subject that is never the same twice, for counting false alarms: no model, logits drawn with noise.

Noise is unlike from trace to trace (a lognormal scale), heavy in the tails (Student's t of 4) and correlated along a trace,
as batch mixes and atomic sums make it. Every arm draws its own, so cold, split and warm differ by one law: nothing is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.schema.arm import Arm, Compiler

__all__ = ["TRACES", "recording"]

TRACES, TURNS, SCORED, VOCABULARY = 64, 4, 12, 24
"""As many traces as the gates of the preset ``ci`` need; a request of that preset scores 12 positions on average."""

SIZE = 0.02
"""nat of a logit, median over traces: about what cold against split shows in the lab."""

TRAIL = 0.7
"""Correlation of the noise of neighbouring positions."""

PROMPT = 20

MARGINS = 9.0
"""nat: spread of the logits. A quarter of the traces then has a flip between two arms, as in the preset ``ci``."""


def recording(arm: Arm, seed: int) -> ArmRecording:
    """One arm of a suite: the same texts in all arms of a seed, noise of its own."""
    warm, cuts = arm.compiler is Compiler.WARM, arm.compiler is not Compiler.COLD
    noise = np.random.default_rng([seed, *arm.name.encode()])
    scale = SIZE * np.random.default_rng([seed, 1]).lognormal(sigma=0.5, size=TRACES)
    turns = [_turn(seed, trace, turn, scale[trace], noise, cuts) for trace in range(TRACES) for turn in range(TURNS)]
    hits = TRACES * (TURNS - 1) if warm else 0
    kernels = {part: frozenset({"noisy"}) for part in ("history", "tail", "answer")}
    return ArmRecording(
        arm=arm.name, turns=tuple(turns), restores=(), written=(), kernels=kernels, expected_hits=hits, proven_hits=hits,
        computed_tokens=0,
    )  # fmt: skip


def _turn(seed: int, trace: int, turn: int, size: float, noise: np.random.Generator, cuts: bool) -> ScoredTurn:
    text = np.random.default_rng([seed, 2, trace, turn])
    position = PROMPT + turn * (PROMPT + SCORED)
    logits = MARGINS * text.normal(size=(SCORED, VOCABULARY)) + size * _trailing(noise)
    return ScoredTurn(
        trace=f"t{trace:03}",
        branch=0,
        turn=turn,
        cluster=f"t{trace:03}",
        positions=np.arange(SCORED, dtype=np.int32) + position,
        tokens=text.integers(0, VOCABULARY, SCORED).astype(np.int32),
        logits=logits.astype(np.float32),
        restore=position - 8 if cuts and turn else None,  # split is cut where warm restores
    )


def _trailing(noise: np.random.Generator) -> NDArray[np.float64]:
    """[SCORED, VOCABULARY] of an autoregression, with unit variance of the t distribution's core."""
    draws = noise.standard_t(4, size=(SCORED, VOCABULARY))
    for at in range(1, SCORED):
        draws[at] = TRAIL * draws[at - 1] + np.sqrt(1 - TRAIL**2) * draws[at]
    return draws
