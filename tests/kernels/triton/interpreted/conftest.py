"""These tests run in a process with TRITON_INTERPRET=1 only: see ``test_in_the_interpreter``."""

from __future__ import annotations

import os

if os.environ.get("TRITON_INTERPRET") == "1":
    from replaycheck_kernels.providers.interpreter import repair_triton

    repair_triton()
else:
    collect_ignore_glob = ["test_*.py"]
