"""Which of the lab's two sets of dense operations a device uses: torch and numba on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch


def uses_triton(device: torch.device) -> bool:
    """Asked at each operation. Tests in Triton's interpreter answer True for the CPU."""
    return device.type == "cuda"
