"""Seeded faults of a real engine: states are wiped between their restore and their use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["wiping"]


def wiping(engine: Any, when: Callable[[Sequence[Any]], bool]) -> Callable[[], None]:
    """From here on all stored states are zero whenever requests are sent for which ``when`` holds. Returns what ends it.

    Args:
        engine: a :class:`replaycheck.subjects.server.offline.OfflineEngine`.
    """
    ask = engine.ask

    def spoilt(asks: Sequence[Any]) -> Any:
        if when(asks):
            for layer in engine._engine.vllm_config.compilation_config.static_forward_context.values():
                if hasattr(layer, "get_state_shape"):
                    for tensor in _tensors(layer.kv_cache):
                        tensor.zero_()
        return ask(asks)

    def end() -> None:
        engine.ask = ask

    engine.ask = spoilt
    return end


def _tensors(kept: Any) -> list[Any]:
    return [each for part in kept for each in _tensors(part)] if isinstance(kept, list | tuple) else [kept]
