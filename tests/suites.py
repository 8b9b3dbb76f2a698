"""The text of a suite of one matrix row with chunk kernels, for tests that write a suite into a folder of their own."""

from __future__ import annotations

from collections.abc import Sequence


def suite_text(
    name: str,
    traces: str,
    pools: Sequence[str] = ("fp32", "bf16"),
    *,
    gates: str = "exact",
    answers: str = "decoded",
    policy: str = "every = 64, turn_end = true",
) -> str:
    """``traces``: a file beside the suite, or ``suite:NAME``. ``gates``: a shipped name or a file beside the suite."""
    return f"""schema = "replaycheck.suite/1"
name = "{name}"
traces = ["{traces}"]
gates = ["{gates}"]
recipe = "sglang"

[[matrix]]
history = ["chunk"]
tail = ["chunk"]
answers = ["{answers}"]
pool = [{", ".join(f'"{pool}"' for pool in pools)}]
policy = {{ {policy} }}
"""
