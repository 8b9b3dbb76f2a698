"""What the tiny models share: their vocabulary, and weights that make history count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["HIDDEN", "VOCABULARY", "save"]

VOCABULARY = 320
HIDDEN = 128

SPREAD = 2.5
"""Standard deviation of the logits: no distribution is flat, so a token's log-probability moves with its history."""


def save(model: Any, head: Any, folder: Path) -> None:
    """Perturb biases, norms and decays so that each matters, spread the logits, and write the checkpoint.

    Args:
        head: the output projection's weight [vocabulary, hidden].
    """
    import torch

    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    head.data.normal_(0, SPREAD / HIDDEN**0.5)
    model.save_pretrained(folder)
