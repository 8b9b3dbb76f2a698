"""Tiny models, built once."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", minversion="5.23")

from replaycheck.architectures.judge import Judge
from replaycheck.architectures.model import build
from tests.tensors import one_thread as one_thread


@pytest.fixture(scope="session")
def attention() -> Judge:
    """A control: attention only."""
    return Judge(build("qwen3"))


@pytest.fixture(scope="session")
def convolution() -> Judge:
    """Short convolutions and attention."""
    return Judge(build("lfm2"))
