"""Fixtures of tests that compute with torch; a folder's conftest imports those that it wants, and they act on all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from replaycheck.state_probes.tiny import write_tiny


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors of a few kilobytes gain nothing from threads, and wait for them on a busy machine; a split sum has other bits.

    Of a module, so that its own fixtures compute in one thread, too.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    """Networks keep no graph of what they computed."""
    with torch.no_grad():
        yield


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random model of both layer kinds."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_tiny(folder, 0)
    return folder
