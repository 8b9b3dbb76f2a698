"""Tiny models, built once."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers", minversion="5.23")

from replaycheck.architectures.judge import Judge
from replaycheck.architectures.model import build


@pytest.fixture(scope="session")
def attention() -> Judge:
    """A control: attention only."""
    torch.set_num_threads(1)
    return Judge(build("qwen3"))


@pytest.fixture(scope="session")
def convolution() -> Judge:
    """Short convolutions and attention."""
    torch.set_num_threads(1)
    return Judge(build("lfm2"))
