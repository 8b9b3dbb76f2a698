"""What tests of several folders share: running the command line in this process, and a sampler that needs no model."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import settings

from replaycheck.cli.main import invoke
from replaycheck.schema.trace import Group
from replaycheck.traces.suites.quick import TEMPERATURE, quick_specs
from tests.sampling import Sample, Sampler, build_group

# Times on a shared machine say nothing; examples are the same on every run.
settings.register_profile("replaycheck", deadline=None, derandomize=True)
settings.load_profile("replaycheck")


@dataclass(frozen=True)
class Outcome:
    """What a command line left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def replaycheck(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``replaycheck("trace", "list")`` runs the command line in this process."""

    def run(*args: object) -> Outcome:
        capsys.readouterr()
        code = invoke([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Outcome(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def fake_sample() -> Sample:
    """Answers of lower-case letters, of any length up to the limit, that depend on nothing but the seed."""

    def sample(tokens: list[int], limit: int, seed: int) -> list[int]:
        source = random.Random(seed)
        return [source.randint(97, 122) for _ in range(source.randint(0, limit))]

    return sample


@pytest.fixture
def quick_groups(fake_sample: Sample) -> list[Group]:
    """The quick suite with answers from ``fake_sample``."""
    sampler = Sampler(fake_sample, "0123456789abcdef", 0, TEMPERATURE)
    return [build_group(spec, sampler) for spec in quick_specs()]
