"""Record a talk with vLLM's own HTTP server, which ``make test`` plays back.

    .venv-engines/bin/python tests/engines/record_vllm.py tests/subjects/server/recorded/vllm-0.32.0.json

It serves the tiny granitemoehybrid on the CPU build. Its engine runs in a process of its own, so what 0.32.0 can't do there
is changed by a plugin of vLLM's: a folder on the path with an entry point.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]

from tests.engines.exchanges import forward, serving  # noqa: E402  (the folder isn't installed)
from tests.engines.models import WRITERS  # noqa: E402
from tests.engines.patches import SETTINGS  # noqa: E402
from tests.engines.talk import talk  # noqa: E402

PORT = 8769
READY = 300
"""Seconds until it must answer; it took 60 to 120."""


def main(out: Path) -> None:
    with TemporaryDirectory() as scratch:
        WRITERS["granitemoehybrid"](Path(scratch) / "model")
        server = _start(Path(scratch))
        try:
            _wait(server)
            with serving(forward(f"http://127.0.0.1:{PORT}")) as (url, seen):
                print(talk(url))
        finally:
            server.terminate()
            server.wait(60)
    # Where the model lay is in the server's answers, and nobody's business.
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in seen).replace(f"{scratch}/", "")
    out.parent.mkdir(exist_ok=True)
    out.write_text(f"[\n{lines}\n]\n")
    print(f"{out}: {len(seen)} exchanges, {out.stat().st_size:,} bytes")


def _start(scratch: Path) -> subprocess.Popen[bytes]:
    plugin = scratch / "plugin" / "tiny_cpu-1.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-cpu\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text("[vllm.general_plugins]\ntiny-cpu = tests.engines.patches:apply\n")
    path = os.pathsep.join([str(plugin.parent), str(ROOT), str(ROOT / "kernels")])
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(scratch / "model")]
    words += ["--served-model-name", "tiny", "--skip-tokenizer-init", "--enforce-eager", "--dtype", "float32"]
    words += ["--enable-prefix-caching", "--enable-prompt-tokens-details", "--max-model-len", "2048"]
    words += ["--host", "127.0.0.1", "--port", str(PORT)]
    more = SETTINGS | {"PYTHONPATH": path, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return subprocess.Popen(words, env=os.environ | more)


def _wait(server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5)
            return
        except OSError:
            time.sleep(1)
    raise SystemExit("the server didn't start")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
