"""A tiny random model of both layer kinds, written once a session, and its network."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.recipe import SGLANG
from replaycheck_kernels.registry import ours
from tests.tensors import model as model
from tests.tensors import one_thread as one_thread


@pytest.fixture(scope="session")
def sglang(model: Path) -> Network:
    """The model under the default recipe, on our kernels."""
    return Network(model, SGLANG, ours(SGLANG, "cpu"))
