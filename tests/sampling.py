"""Groups whose answers come from a function, one at a time: suites can be made without a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replaycheck.schema.trace import Group
from replaycheck.traces.synth import GroupBuild, GroupSpec, Origin

Sample = Callable[[list[int], int, int], list[int]]
"""``sample(tokens, limit, seed)``: the content of an answer to the prompt ``tokens``, at most ``limit`` tokens."""


@dataclass(frozen=True)
class Sampler:
    """Where answers come from, and what is recorded about that."""

    sample: Sample
    model: str
    seed: int
    temperature: float


def build_group(spec: GroupSpec, sampler: Sampler) -> Group:
    """Build and check a group."""
    build = GroupBuild(spec, Origin(sampler.model, sampler.seed, sampler.temperature))
    while asks := build.asks():
        for ask in asks:
            build.give(ask, sampler.sample(list(ask.tokens), ask.limit, ask.seed))
    return build.group()
