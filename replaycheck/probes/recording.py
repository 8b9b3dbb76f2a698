"""Activations of a real model as inputs of the probes: what the KDA layers of the lab get while it reads a trace.

Random normal q and k are nearly orthogonal; a model's repeat themselves, which makes I + A ill-conditioned, and its decays
follow the text. ``recorder`` takes them at run time; nothing is shipped.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor


@dataclass(frozen=True)
class Recording:
    """Inputs of KDA layers on a real text, heads of the layers side by side, and the states that they end in.

    Attributes:
        q, k, a: [N, H, K]; v: [N, H, V]; b: [N, H]; raw decay and raw beta. A_log: [H]; dt_bias: [H, K].
        state: [H, V, K] after the last token.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    b: Tensor
    A_log: Tensor
    dt_bias: Tensor
    state: Tensor

    def heads(self, count: int) -> Recording:
        """The first ``count`` heads, from the beginning again where there are fewer."""
        chosen = torch.arange(count) % len(self.A_log)
        over_tokens = {name: getattr(self, name)[:, chosen] for name in ("q", "k", "v", "a", "b")}
        return Recording(**over_tokens, **{name: getattr(self, name)[chosen] for name in ("A_log", "dt_bias", "state")})

    def save(self, path: Path) -> Path:
        save_file({each.name: getattr(self, each.name).contiguous() for each in fields(self)}, path)
        return path


def load_recording(path: Path) -> Recording:
    """What ``Recording.save`` wrote."""
    return Recording(**load_file(path))
