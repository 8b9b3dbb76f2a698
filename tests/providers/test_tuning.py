"""Autotuning is bounded, and what it chose is kept; with a stand-in for Triton, which this machine may lack."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

import pytest

from replaycheck_kernels.providers.tuning import bound_autotuning


class Tuner:
    """As Triton's: prunes, times, runs the best; the last is always the fastest here."""

    def __init__(self, fn: object, configs: list[str]) -> None:
        self.fn, self.configs, self.best_config = fn, configs, ""

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[str]:
        return [config for config in self.configs if config != "pruned"]

    def run(self, *args: Any, **kwargs: Any) -> str:
        self.best_config = self.prune_configs(kwargs)[-1]
        return self.best_config


@pytest.fixture
def autotuner(monkeypatch: pytest.MonkeyPatch) -> type[Tuner]:
    module = cast(Any, ModuleType("triton.runtime.autotuner"))
    module.Autotuner = type("Autotuner", (Tuner,), {"prune_configs": Tuner.prune_configs, "run": Tuner.run})
    for name in ("triton", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found: type[Tuner] = module.Autotuner
    return found


@pytest.mark.parametrize(("most", "chosen"), [(1, "a"), (2, "b"), (0, "d")])
def test_at_most_so_many_are_timed_after_pruning(autotuner: type[Tuner], most: int, chosen: str) -> None:
    record = bound_autotuning(most)
    tuner = autotuner(test_at_most_so_many_are_timed_after_pruning, ["pruned", "a", "b", "d"])
    assert tuner.run() == chosen
    assert record == {"test_at_most_so_many_are_timed_after_pruning": {chosen}}


def test_every_configuration_that_ran_is_kept(autotuner: type[Tuner]) -> None:
    record = bound_autotuning(0)
    inner = type("Decorated", (), {"fn": staticmethod(len)})()
    for configs in (["a"], ["a", "b"]):
        autotuner(inner, configs).run()
    assert record == {"len": {"a", "b"}}
