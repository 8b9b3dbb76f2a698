"""Triton's autotuning, bounded and made visible: for a process of its own, as it changes Triton for the whole process.

Full autotuning compiles and times tens of configurations for every kernel and shape, which costs minutes. A configuration
(tile, warps, stages) decides the order in which a kernel sums, so the choice changes bits, and where two shapes get unlike
configurations a sequence alone may differ from the same in a pack. Written for Triton 3.6 to 3.8, ``runtime/autotuner.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Chosen = dict[str, set[str]]
"""Kernel function → the configurations that ran."""


def bound_autotuning(most: int) -> Chosen:
    """Time at most ``most`` configurations a kernel and shape: the first ones after the kernel's own pruning.

    Args:
        most: 0 times all of them, as the engines do.

    Returns:
        A record that fills as kernels run: names of autotuned kernels with every configuration that was used.
    """
    from triton.runtime.autotuner import Autotuner

    chosen: Chosen = {}
    prune, run = Autotuner.prune_configs, Autotuner.run

    def fewer(self: Any, kwargs: Mapping[str, Any], *rest: Any) -> list[Any]:
        found = list(prune(self, kwargs, *rest))
        return found[:most] if most else found

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(self, *args, **kwargs)
        chosen.setdefault(_name(self), set()).add(str(self.best_config))
        return result

    Autotuner.prune_configs = fewer
    Autotuner.run = noted
    return chosen


def _name(tuner: Any) -> str:
    """Of the Python function under the autotuner and whatever else decorates it."""
    inner = tuner.fn
    while not hasattr(inner, "__name__") and hasattr(inner, "fn"):
        inner = inner.fn
    return str(getattr(inner, "__name__", inner))
