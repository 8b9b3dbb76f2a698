"""Taps name what a package's functions return, copy it, and leave the package as it was."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any, cast

import torch

from replaycheck_kernels.providers.exposed import NORMS, Tap, exposing
from replaycheck_kernels.providers.shim import KernelModules


def package() -> tuple[ModuleType, KernelModules]:
    """A module with two functions, and one call that runs them and then writes over what they returned."""
    module = cast(Any, ModuleType("package"))
    module.norm = lambda x: (2 * x, "rstd")
    module.intra = lambda x: (x + 1, None, x[..., None])

    def call() -> None:
        q, _ = module.norm(torch.ones(1, 3))
        module.norm(torch.full((1, 3), 5.0))
        w, *_ = module.intra(q)
        w.zero_()

    module.call = call
    return module, cast(KernelModules, SimpleNamespace(load=lambda name: module))


def test_returned_tensors_get_names_call_by_call_without_their_batch() -> None:
    module, modules = package()
    before = module.norm, module.intra
    taps = (Tap("package", "norm", NORMS), Tap("package", "intra", (("w", "u", "h"),)))
    with exposing(modules, taps)() as found:
        module.call()
    assert {name: tensor.tolist() for name, tensor in found.items() if name != "h"} == {
        "q": [2.0, 2.0, 2.0],
        "k": [10.0, 10.0, 10.0],
        "w": [3.0, 3.0, 3.0],
    }
    assert found["h"].shape == (3, 1)
    assert (module.norm, module.intra) == before


def test_states_kept_as_key_by_value_are_turned() -> None:
    module, modules = package()
    with exposing(modules, (Tap("package", "intra", ((None, None, "h"),)),), turned=True)() as found:
        module.call()
    assert found["h"].shape == (1, 3)
