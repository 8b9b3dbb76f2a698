"""Log-probabilities of a token sequence by transformers in fp32, written as .npy: one forward, in pieces, token by token.

A script of its own: the process that uses transformers must not see an installed ``fla``, which would be chosen over the
torch code and find no GPU, and never runs with TRITON_INTERPRET.

    python transformers_logprobs.py MODEL TOKENS.npy OUT.npy PIECES   (lengths, joined by commas)
"""

from __future__ import annotations

import sys

import numpy as np
import torch


def logprobs(model: torch.nn.Module, tokens: torch.Tensor, cuts: tuple[int, ...]) -> np.ndarray:
    """Log-probability of each next token [n − 1] when the tokens are fed in pieces of these lengths."""
    cache, rows = None, []
    for piece in tokens[:-1].split(list(cuts)):
        output = model(piece[None], past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        rows.append(output.logits[0])
    table = torch.log_softmax(torch.cat(rows).double(), -1)
    return table.gather(1, tokens[1:, None])[:, 0].numpy()


@torch.no_grad()
def main(folder: str, tokens_file: str, out: str, pieces: str) -> None:
    sys.modules["fla"] = None  # type: ignore[assignment]  # importing it fails, as if it weren't installed
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    tokens = torch.from_numpy(np.load(tokens_file))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    n, cut = len(tokens) - 1, tuple(map(int, pieces.split(",")))
    np.save(out, np.stack([logprobs(model, tokens, cuts) for cuts in ((n,), cut, (1,) * n)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
