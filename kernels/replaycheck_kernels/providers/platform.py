"""Facts about the device that kernel files ask their engine for; here they are asked of torch."""

from __future__ import annotations

import torch


def is_cuda() -> bool:
    """Whether torch is built for CUDA and finds a device."""
    return torch.version.cuda is not None and torch.cuda.is_available()


def capability() -> tuple[int, int]:
    """CUDA compute capability of the current device; (0, 0) without one."""
    return torch.cuda.get_device_capability() if is_cuda() else (0, 0)


def dependent_launch() -> bool:
    """Programmatic dependent launch: from Hopper (9.0) on, as both engines decide."""
    return capability() >= (9, 0)


def processors(device: int = 0) -> int:
    """Multiprocessors of a device."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def torch_release() -> tuple[int, int]:
    """Major and minor of torch's version."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def no(*_args: object, **_kwargs: object) -> bool:
    """For every other platform that an engine knows."""
    return False
