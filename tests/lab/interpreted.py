"""The lab's Triton path in Triton's interpreter, for a child process: one forward pass on the CPU's tensors, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from replaycheck.schedule.steps import Kept
from replaycheck.schema.arm import Rollback
from replaycheck.subjects.lab import attention, convolution, layers, network, rollback, weights
from replaycheck.subjects.lab.network import Network, RowInput, RowOutput, Tap
from replaycheck.subjects.lab.rollback import Verify
from replaycheck_kernels.providers.interpreter import repair_triton
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours

TOKENS = tuple((7 * i * i + 3 * i + 1) % 96 + 32 for i in range(70))


def forward(model: Path, recipe: str) -> list[RowOutput]:
    """A head of 66 tokens with a snapshot inside, then its tail beside a fresh row, a decode step and two windows."""
    net = Network(model, preset(recipe), ours(preset(recipe), "cpu"))
    empty = net.empty_state()
    head = RowInput(TOKENS[:66], 0, "chunk", empty, (Tap(1, "accumulator", 64, 64),))
    first = net.forward([head])[0]
    tail = RowInput(TOKENS[64:], 64, "chunk", first.taps[0])
    rows = [tail, RowInput(TOKENS[:2], 0, "chunk", empty), RowInput(TOKENS[66:67], 66, "recurrent", first.final)]
    for method, kept in ((Rollback.RECOVER, 2), (Rollback.SLOTS, 3)):
        verify = Verify(method, Kept.all(kept), kept)
        rows.append(RowInput(TOKENS[66:70], 66, "recurrent", first.final, verify=verify))
    return [first, *net.forward(rows)]


def use_triton() -> None:
    """Every dense operation of the lab from here on."""
    repair_triton()
    for module in (attention, convolution, layers, network, rollback, weights):
        module.uses_triton = lambda device: True  # type: ignore[attr-defined]


def main(model: Path, recipe: str) -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        expected = forward(model, recipe)
        use_triton()
        found = forward(model, recipe)
    for e, f in zip(expected, found, strict=True):
        print(
            json.dumps(
                {
                    "logits": float((e.logits - f.logits).abs().max()),
                    "size": float(e.logits.abs().max()),
                    "state": float((e.final.temporal - f.final.temporal).norm() / e.final.temporal.norm()),
                    "first conv": torch.equal(e.final.conv[0], f.final.conv[0]),
                    "conv": float((e.final.conv - f.final.conv).abs().max()),
                    "pages": e.final.pages.tolist() == f.final.pages.tolist(),
                }
            )
        )
    restored, whole = found[1].logits, found[0].logits[64:]
    print(json.dumps({"restored": torch.equal(restored[:2], whole)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
