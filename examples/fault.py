"""A third party's fault: a store that keeps the state of every second head at half its size.

replaycheck selftest --fault examples.fault:FAULT
replaycheck run --fault examples.fault:FAULT --out /tmp/halved
"""

import torch

from replaycheck.faults.cell import SmallCell
from replaycheck.faults.fault import Fault
from replaycheck.faults.signature import Conv, Grid, Onset, Signature, State


def halved(state: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A cast of a store: state [..., V, K] in fp32, heads before V; the result has the pool's dtype."""
    kept = state.clone()
    kept[..., ::2, :, :] *= 0.5
    return kept.to(dtype)


FAULT = Fault(
    name="halved",
    imitates="a quantiser takes a neighbour's scale",
    code="RC102",
    cast=halved,
    cells=(SmallCell("short"),),
    expected=Signature(Onset.BEFORE, Conv.FOLLOWS, State.OTHER, Grid.OFF),
    claims=("exact/logits-bits", "exact/restored-state"),
)
