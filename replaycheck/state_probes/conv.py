"""Convolution windows of a packed call: for every end, the sequence's own last inputs, byte for byte."""

from __future__ import annotations

from itertools import accumulate

import torch

from replaycheck.subjects.lab.convolution import conv_plan, convolve
from replaycheck_kernels.precision import Precision

from .found import Check, Found, broken, exact
from .subject import Subject

__all__ = ["checks"]

WIDTH, CHANNELS = 4, 24
LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65, 130)
"""Shorter than the window, as long, longer; round the chunk."""


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    return [Check("conv-window", "convolution", "its own last inputs, byte for byte", _windows)]


def _windows(subject: Subject) -> Found:
    draws = torch.Generator().manual_seed(subject.seed)
    offsets = (0, *accumulate(LENGTHS))
    x = torch.randn(offsets[-1], CHANNELS, generator=draws)
    state = torch.randn(len(LENGTHS), WIDTH - 1, CHANNELS, generator=draws)
    weight = torch.randn(CHANNELS, WIDTH, generator=draws)
    ends = [(row, end) for row, length in enumerate(LENGTHS) for end in range(length + 1)]
    on = torch.device(subject.device)
    plan = conv_plan(offsets, ends, on)
    _, found = convolve(x.to(on), weight.to(on), state.to(on), plan, Precision.FP32)
    for (row, end), window in zip(ends, found.cpu(), strict=True):
        line = torch.cat([state[row], x[offsets[row] : offsets[row] + end]])[-(WIDTH - 1) :]
        if not torch.equal(window.view(torch.int32), line.view(torch.int32)):
            example = f"row of {LENGTHS[row]} tokens in a pack of {len(LENGTHS)}, window after {end} of them"
            return broken("a window doesn't hold the last inputs before its end", example)
    sentence = f"{len(ends)} windows of rows of {LENGTHS[0]} to {LENGTHS[-1]} tokens are the last {WIDTH - 1} inputs"
    return exact(sentence, windows=len(ends))
