"""llama.cpp's real server on loopback, with tiny models: up in 0.2 s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from replaycheck.model.gguf_tiny import write_tiny
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.options import ServerOptions, Value
from replaycheck.subjects.server.llamacpp.wire import Wire
from replaycheck.traces.vocabulary import SIZE

pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

Serve = Callable[..., LlamaServer]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a tiny model by architecture."""
    folder = tmp_path_factory.mktemp("gguf")

    def file(architecture: str) -> Path:
        found = folder / f"tiny-{architecture}.gguf"
        return found if found.exists() else write_tiny(folder, architecture)

    return file


@pytest.fixture
def serve(tiny: Callable[[str], Path], tmp_path: Path) -> Iterator[Serve]:
    """``serve("mamba", {"parallel": 1})`` starts a server that ends with the test; slots can be saved."""
    with ExitStack() as running:

        def start(model: str | Path, options: dict[str, Value] | None = None) -> LlamaServer:
            file = tiny(model) if isinstance(model, str) else model
            values = {"slot-save-path": f"{tmp_path}/", **(options or {})}
            return running.enter_context(LlamaServer(ServerOptions(file, values)))

        yield start


@pytest.fixture
def wire(serve: Serve) -> Wire:
    """Requests to a server of the tiny Kimi Linear, with all log-probabilities."""
    return Wire(Client(serve("kimi-linear").url), SIZE)
