"""Suites built without a model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from replaycheck.schema.trace import Group
from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.synth import Ask, GroupBuild, Origin

Fill = Callable[[Ask], list[int]]
Build = Callable[..., list[Group]]


def longest(ask: Ask) -> list[int]:
    return [97 + ask.seed % 26] * ask.limit


def shortest(ask: Ask) -> list[int]:
    return [97 + ask.seed % 26] * ask.least


def mixed(ask: Ask) -> list[int]:
    source = random.Random(ask.seed)
    return [source.randint(97, 122) for _ in range(source.randint(ask.least, ask.limit))]


@pytest.fixture(params=[longest, shortest, mixed], ids=["longest", "shortest", "mixed"])
def fill(request: pytest.FixtureRequest) -> Fill:
    return request.param


@pytest.fixture
def build() -> Build:
    """``build(specs, fill, seed)``: groups whose answers come from ``fill``."""

    def make(specs: Iterable[GroupSpec], fill: Fill = longest, seed: int = 0) -> list[Group]:
        groups = []
        for spec in specs:
            under_way = GroupBuild(spec, Origin("0123456789abcdef", seed, 1.0))
            while asks := under_way.asks():
                for ask in asks:
                    under_way.give(ask, fill(ask))
            groups.append(under_way.group())
        return groups

    return make
