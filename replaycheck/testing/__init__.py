"""Check your own kernels in your own tests: probes and gates in five lines, and a failure says what differs where.

>>> from replaycheck.testing import assert_kernel
>>> from replaycheck_kernels.recurrent import RECURRENT_TORCH
>>> cells = assert_kernel(RECURRENT_TORCH, recipe="sglang", properties=("error", "restore", "alone"))
>>> [(cell.property, cell.verdict) for cell in cells]
[('error', 'noise'), ('restore', 'exact'), ('alone', 'exact')]

With pytest, a test a property and one that replays conversations with the state cached and not (``docs/ci.md``)::

    def test_my_kernel(assert_kernel, kernel_property):
        assert_kernel(my_forward, recipe="fla", properties=[kernel_property], exact=("restore", "alone"))

    def test_replay(assert_replay_consistent):
        assert_replay_consistent(my_forward, recipe="fla")

A kernel is a function of (inputs, initial states, snapshot rows, recipe) that returns a KdaOutput (see
``replaycheck_kernels.contract``), a StateKernel, or a ProviderKernel with what it can do.
"""

from __future__ import annotations

from replaycheck.testing.kernels import (
    DEVICE,
    PROPERTY_NAMES,
    SMALL,
    ProbeCell,
    Sizes,
    assert_kernel,
    probe_kernel,
)
from replaycheck.testing.replay import assert_replay_consistent

__all__ = ["DEVICE", "PROPERTY_NAMES", "SMALL", "ProbeCell", "Sizes", "assert_kernel", "assert_replay_consistent",
           "probe_kernel"]  # fmt: skip
