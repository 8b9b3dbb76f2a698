"""A third party's provider, as short as it can be: our recurrent form under another name."""

from __future__ import annotations

from dataclasses import replace

from replaycheck_kernels.providers import Capabilities, ModelKind, Provider, ProviderKernel
from replaycheck_kernels.recurrent import RECURRENT_TORCH

KERNEL = replace(RECURRENT_TORCH, name="fake/recurrent")


def factory() -> Provider:
    """What ``tests.providers.fake_kernels:factory`` names."""
    can = Capabilities(claims=(), devices=frozenset({"cpu"}))
    return Provider("fake", (ProviderKernel(ModelKind.KDA, KERNEL, can),), version="1.0", tested=("1.0",))


def broken() -> str:
    """Doesn't return a provider."""
    return "fake"


NUMBER = 7
