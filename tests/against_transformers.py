"""The shipped model by transformers in fp32 on one thread: what the lab and llama.cpp are held against, token by token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from replaycheck.assets import model_dir
from replaycheck.subjects.lab.network import Network, RowInput
from replaycheck.subjects.transformers.load import import_transformers
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import ours


@torch.no_grad()
def of_transformers(tokens: Sequence[int], pieces: Sequence[int]) -> np.ndarray:
    """Log-probability of each next token [n − 1] when the tokens are fed in pieces of these lengths."""
    auto = import_transformers("this test").AutoModelForCausalLM
    model = auto.from_pretrained(model_dir(None), dtype=torch.float32).eval()
    cache, rows = None, []
    for piece in torch.tensor(tokens[:-1]).split(list(pieces)):
        output = model(piece[None], past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        rows.append(output.logits[0])
    return _of_next(torch.cat(rows), tokens)


@torch.no_grad()
def of_lab(tokens: Sequence[int], pieces: Sequence[int]) -> np.ndarray:
    """The same by the lab under recipe ``exact``: chunk form for pieces, recurrent form for single tokens."""
    recipe = preset("exact")
    network = Network(model_dir(None), recipe, ours(recipe, "cpu"))
    state, at, rows = network.empty_state(), 0, []
    for length in pieces:
        form = "recurrent" if length == 1 and at else "chunk"
        output = network.forward([RowInput(tokens[at : at + length], at, form, state)])[0]
        state, at = output.final, at + length
        rows.append(output.logits)
    return _of_next(torch.cat(rows), tokens)


def _of_next(logits: torch.Tensor, tokens: Sequence[int]) -> np.ndarray:
    table = torch.log_softmax(logits.double(), -1)
    return table.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0].numpy()
