"""A tiny random model of both layer kinds, written once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from replaycheck.model.folder import write_folder
from replaycheck.model.initial import initial_weights
from replaycheck.state_probes.tiny import CONFIG, GAIN
from replaycheck.subjects.lab.network import Network
from replaycheck_kernels.recipe import SGLANG
from replaycheck_kernels.registry import ours


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors of a few kilobytes gain nothing from threads, and a split sum has other bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's folder."""
    folder = tmp_path_factory.mktemp("lab") / "tiny"
    weights = initial_weights(CONFIG, seed=1)
    matrices = {name: w * GAIN if name.endswith("proj.weight") else w for name, w in weights.items()}
    write_folder(folder, CONFIG, matrices)
    return folder


@pytest.fixture(scope="session")
def sglang(model: Path) -> Network:
    """The model under the default recipe, on our kernels."""
    return Network(model, SGLANG, ours(SGLANG, "cpu"))
