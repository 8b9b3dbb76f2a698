"""The start-up check: do the lab's bits really not depend on the batch on this machine?

Exact gates rest on it. A BLAS that picks another kernel by batch, or an element-wise loop that treats its tail otherwise,
would make warm and split differ without any fault of a state. The check computes rows alone and in packs, whole and cut on
the grid, and compares bits of logits and states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol

import torch

from replaycheck.errors import EngineEnvironmentError
from replaycheck.schedule.steps import Kept
from replaycheck.schema.arm import Rollback

from .network import RowInput, RowOutput
from .rollback import Verify
from .state import SequenceState


class Forward(Protocol):
    """The part of a network that is checked."""

    def forward(self, rows: Sequence[RowInput]) -> list[RowOutput]: ...

    def empty_state(self) -> SequenceState: ...


_TOKENS = tuple((7 * i * i + 3 * i + 1) % 96 + 32 for i in range(200))
"""200 text ids from 32 to 127; i² keeps the chunks from being alike."""
_STEPS = 12
"""Tokens that are decoded one at a time."""


def check_invariance(network: Forward, methods: Iterable[Rollback] = ()) -> None:
    """Compare bits of rows computed alone and otherwise.

    Args:
        methods: rollback methods of the run's arms; their windows are checked, too.

    Raises:
        EngineEnvironmentError: something depends on the batch; exact gates can't judge here.
    """
    with torch.no_grad():
        problems = chain(_problems(network), *(_window_problems(network, method) for method in methods))
        problem = next(problems, None)
    if problem:
        raise EngineEnvironmentError(
            f"exact gates can't judge on this machine: {problem} has other bits than the same rows computed alone; "
            "run with one thread (OMP_NUM_THREADS=1) or another torch build, and see `replaycheck doctor`"
        )


def _problems(network: Forward) -> Iterator[str]:
    empty = network.empty_state()
    chunk = RowInput(_TOKENS, 0, "chunk", empty)
    recurrent = RowInput(_TOKENS[:70], 0, "recurrent", empty)
    alone = network.forward([chunk])[0], network.forward([recurrent])[0]
    mates = [RowInput(_TOKENS[i : i + n], 0, "chunk", empty) for i, n in ((3, 65), (50, 1), (9, 130))]
    packed = network.forward([*mates, chunk, recurrent])[3:]
    for form, one, many in zip(("a chunk row in a pack", "a recurrent row in a pack"), alone, packed, strict=True):
        if not _same(one, many):
            yield form
    head = network.forward([RowInput(_TOKENS[:128], 0, "chunk", empty)])[0]
    rest = network.forward([RowInput(_TOKENS[128:], 128, "chunk", head.final)])[0]
    if not _same(rest, replace(alone[0], logits=alone[0].logits[128:])):
        yield "a chunk row cut on the grid"
    together = network.forward([RowInput(_TOKENS[:_STEPS], 0, "recurrent", empty)])[0]
    state, steps = empty, []
    for i in range(_STEPS):
        output = network.forward([RowInput(_TOKENS[i : i + 1], i, "recurrent", state)])[0]
        state = output.final
        steps.append(output.logits)
    if not _same(replace(output, logits=torch.cat(steps)), together):
        yield "a row decoded token by token"


def _window_problems(network: Forward, method: Rollback) -> Iterator[str]:
    """Windows of 1 to 8 tokens of which each count is kept: in a pack, and without the drafts that are thrown away."""
    state = network.forward([RowInput(_TOKENS[:40], 0, "recurrent", network.empty_state())])[0].final

    def window(length: int, kept: int) -> RowInput:
        verify = Verify(method, Kept.all(kept), kept)
        return RowInput(_TOKENS[40 : 40 + length], 40, "recurrent", state, verify=verify)

    kept = range(1, 9)
    packed = network.forward([window(8, count) for count in kept])
    for count, many in zip(kept, packed, strict=True):
        if not _same(network.forward([window(count, count)])[0], many):
            yield f"a window of rollback {method} in a pack"


def _same(a: RowOutput, b: RowOutput) -> bool:
    """Equal bits of logits and of both parts of the final state."""
    return (
        torch.equal(a.logits, b.logits)
        and torch.equal(a.final.temporal, b.final.temporal)
        and torch.equal(a.final.conv, b.final.conv)
    )
