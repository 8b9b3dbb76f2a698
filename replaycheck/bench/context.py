"""CPU seconds a token at growing context: what the lab takes for a prompt, and for each token decoded after it."""

from __future__ import annotations

import json
from dataclasses import replace
from time import process_time

from replaycheck.replay.settings import Settings
from replaycheck.replay.stage import work_of
from replaycheck.replay.worker import Work, replay_groups
from replaycheck.schema.arm import Compiler
from replaycheck.schema.bench import Figure, Target
from replaycheck.schema.trace import Group

from .figures import figure
from .sessions import Shape, group_of

__all__ = ["context_cost"]

CONTEXTS = (512, 1024, 2048, 4096)
DECODED = 64
WITHIN = 1.2
"""Wanted: a token at the longest context costs at most so many times one at the shortest."""


def context_cost(settings: Settings) -> tuple[list[Figure], list[Target]]:
    """Of one cold arm, alone: a prompt of each length, and ``DECODED`` tokens after it."""
    arm = next(arm for arm in settings.arms if arm.compiler is Compiler.COLD)
    work = replace(work_of(settings), arms=(arm,), cells=())
    _spent(work, _session(CONTEXTS[0], 1))  # warms up
    figures: list[Figure] = []
    by_kind: dict[str, list[float]] = {"prefill": [], "decode": []}
    for length in CONTEXTS:
        prefill, tokens = _spent(work, _session(length, 1))
        both, _ = _spent(work, _session(length, 1 + DECODED))
        by_kind["prefill"].append(prefill / tokens)
        by_kind["decode"].append(max(0.0, both - prefill) / DECODED)
        for kind, costs in by_kind.items():
            value = 1e3 * costs[-1]
            figures.append(figure(f"lab, context {length:,}", kind, "ms CPU a token", [value]))
    targets = [
        Target(
            name=f"{kind}: a token at {CONTEXTS[-1]:,} over one at {CONTEXTS[0]:,}",
            unit="times",
            wanted=WITHIN,
            at_least=False,
            found=costs[-1] / costs[0],
        )
        for kind, costs in by_kind.items()
    ]
    return figures, targets


def _session(prompt: int, answer: int) -> Group:
    """One request whose prompt has about so many tokens."""
    shape = Shape(turns=1, prompt=prompt - 16, answer=answer)
    return Group.model_validate_json(json.dumps(group_of(0, shape)))


def _spent(work: Work, group: Group) -> tuple[float, int]:
    """CPU seconds, and tokens that were computed."""
    begin = process_time()
    (done,) = replay_groups(work, [group])
    return process_time() - begin, sum(arm.computed_tokens for arm in done.record.arms)
