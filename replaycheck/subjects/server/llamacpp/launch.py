"""A real llama.cpp server on loopback, in a process of its own that ends with ours.

    with LlamaServer(ServerOptions(model)) as server:
        ... server.url ...

The child prints its address and lives until its standard input closes, so no server outlives a test that dies. Up in 0.2 s
of CPU for a model of 1 M parameters.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from types import TracebackType

from replaycheck.children import environment
from replaycheck.errors import EngineEnvironmentError

from .options import ServerOptions, apply

__all__ = ["LlamaServer", "require"]

_PATIENCE = 60.0
"""Seconds until a server must have loaded its model and listen; 0.7 were seen on busy cores."""

_ERROR_LINES = 5


def require(package: str) -> None:
    """Raise :class:`EngineEnvironmentError` if it isn't installed; it isn't imported."""
    if find_spec(package) is None:
        raise EngineEnvironmentError(f"the package {package} isn't installed; pip install {package}")


class LlamaServer:
    """A running server.

    Attributes:
        url: where it listens. log: what it has written so far.
    """

    def __init__(self, options: ServerOptions) -> None:
        """Raises :class:`EngineEnvironmentError` if it doesn't come up."""
        require("xllamacpp")
        self.url = ""
        self._log, self._said = tempfile.TemporaryFile(), ""  # noqa: SIM115 (open as long as the server)
        order = json.dumps({"model": str(options.model), "values": options.plain()})
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment(),
        )
        try:
            self.url = self._address()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LlamaServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """What it has printed so far."""
        if not self._log.closed:
            self._log.seek(0)
            self._said = self._log.read().decode("utf-8", "replace")
        return self._said

    @property
    def errors(self) -> list[str]:
        """Lines of the log that report errors, without their time stamps, and what was written on the way out."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return [line.partition(" E ")[2].strip() or line for line in lines if " E " in line or not line[0].isdigit()]

    def close(self) -> None:
        """End it, by force if it doesn't go."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said = self.log
        self._log.close()

    def _address(self) -> str:
        out = self._process.stdout
        assert out is not None
        ends = time.monotonic() + _PATIENCE
        while time.monotonic() < ends:
            if select.select([out], [], [], 0.2)[0]:
                line = out.readline().decode().strip()
                if line.startswith("http://"):
                    return line
                if not line:
                    break
        last = " | ".join(self.errors[-_ERROR_LINES:])
        raise EngineEnvironmentError(f"llama.cpp's server didn't come up: {last or 'it said nothing'}")


def _main(order: str) -> None:
    import xllamacpp

    asked = json.loads(order)
    try:
        server = xllamacpp.Server(apply(xllamacpp, asked["model"], asked["values"]))
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    print(server.listening_address, flush=True)
    sys.stdin.read()
    # Its threads may be in the middle of a request; nothing of it is needed any more.
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1])
