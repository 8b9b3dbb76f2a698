"""The lab and transformers compute the same model: recipe ``exact``, fp32 on both sides, 1,000 positions.

The bound is the noise of transformers itself: 4 times the largest difference between its chunk form and its token-by-token
form, which are two roundings of one function.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from replaycheck.assets import model_dir, trace_suite
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.traces.read import read_groups
from replaycheck.traces.tree import request_paths
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours

pytest.importorskip("transformers")
POSITIONS = 1000
PIECES = (1, 300, 64, 1, 63, 129, 442)


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    """Real conversations of the quick suite, one after the other."""
    longest = [
        max(request_paths(group), key=lambda path: path.end).tokens for group in read_groups(trace_suite("quick"))
    ]
    return [token for path in longest for token in path][: POSITIONS + 1]


@pytest.fixture(scope="module")
def reference(tokens: list[int], tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    folder = tmp_path_factory.mktemp("transformers")
    np.save(folder / "tokens.npy", np.array(tokens))
    script = Path(__file__).with_name("transformers_logprobs.py")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, str(script), str(model_dir(None)), str(folder / "tokens.npy"), str(folder / "out.npy")]
    command.append(",".join(map(str, PIECES)))
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=600)
    return np.load(folder / "out.npy")


@torch.no_grad()
def lab(tokens: list[int], cuts: tuple[int, ...]) -> np.ndarray:
    """As in the script: chunk form for pieces, recurrent form for single tokens."""
    recipe = preset("exact")
    network = Network(model_dir(None), recipe, ours(recipe, "cpu"))
    state, at, rows = network.empty_state(), 0, []
    for length in cuts:
        form = "recurrent" if length == 1 and at else "chunk"
        output = network.forward([RowInput(tokens[at : at + length], at, form, state)])[0]
        state, at = output.final, at + length
        rows.append(output.logits)
    table = torch.log_softmax(torch.cat(rows).double(), -1)
    return table.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0].numpy()


def test_one_forward_pieces_and_single_tokens_agree_with_transformers(
    tokens: list[int], reference: np.ndarray, record_property: pytest.RecordProperty
) -> None:
    noise = np.abs(reference[0] - reference[2]).max()
    assert 0 < noise < 1e-3, "transformers' two forms must be two roundings of one function"
    ways = {"one forward": (POSITIONS,), "pieces": PIECES, "token by token": (1,) * POSITIONS}
    for (name, cuts), theirs in zip(ways.items(), reference, strict=True):
        difference = np.abs(lab(tokens, cuts) - theirs).max()
        record_property(name, f"{difference:.3g} nat, {difference / noise:.2f} of the noise {noise:.3g}")
        print(f"{name}: largest difference {difference:.3g} nat; noise of transformers {noise:.3g}")
        assert difference <= 4 * noise, name
