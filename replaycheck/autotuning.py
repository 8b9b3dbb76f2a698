"""How many configurations of a kernel Triton may time before it takes the fastest (``--autotune N``; 0: all).

The choice decides the order of sums, so it changes bits: three purposes, three defaults.
"""

from __future__ import annotations

__all__ = ["BENCHED", "PROBED", "REPLAYED"]

REPLAYED = 1
"""Runs compare bits: with one configuration a timing decides nothing, and no two shapes of a run get unlike ones."""

PROBED = 2
"""A probe wants each kernel to run: one configuration may not fit the device, and each further one costs seconds."""

BENCHED = 0
"""A benchmark wants what engines run, and they time all that a kernel ships, which takes minutes."""
