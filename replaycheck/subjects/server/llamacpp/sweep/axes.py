"""The axes: one option or request field each, everything else as :data:`replaycheck.subjects.server.llamacpp.options.BASE`.

Options that change how a prompt is computed even without a cache are the reference's too (``shared``): with another
micro-batch, attention kernel, cache type or number of checkpoints an uncached answer has other bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.subjects.server.llamacpp.options import Value

from .moves import SYSTEM

__all__ = ["ALL", "AXES", "Axis", "chosen"]

ALL = "sweep"
"""The name of all axes."""

SHARED = frozenset(
    {
        "flash-attn",
        "cache-type-k",
        "cache-type-v",
        "ubatch-size",
        "batch-size",
        "ctx-checkpoints",
        "checkpoint-min-step",
    }
)


@dataclass(frozen=True)
class Axis:
    """One cell of the sweep's columns.

    Attributes:
        options: of the server. fields: of each request. pinned: whether requests name their slot.
        approximate: why its answers aren't meant to be those of an uncached run, by the server's own documentation.
    """

    name: str
    options: Mapping[str, Value] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = True
    route: str = "native"
    approximate: str = ""

    @property
    def shared(self) -> dict[str, Value]:
        """Options that the reference has as well."""
        return {name: value for name, value in self.options.items() if name in SHARED}


_SHIFTS = "KV entries are moved to other positions; what they took from dropped text stays in them"

AXES: tuple[Axis, ...] = (
    Axis("base"),
    Axis("id_slot not given", pinned=False),
    Axis("route /v1/completions", route="openai"),
    Axis("flash-attn=on", {"flash-attn": "on"}),
    Axis("cache-type=f16", {"cache-type-k": "f16", "cache-type-v": "f16"}),
    Axis("cache-type=q8_0", {"flash-attn": "on", "cache-type-k": "q8_0", "cache-type-v": "q8_0"}),
    Axis("ubatch-size=64", {"ubatch-size": 64}),
    Axis("batch-size=32", {"batch-size": 32, "ubatch-size": 32}),
    Axis("ctx-checkpoints=0", {"ctx-checkpoints": 0}),
    Axis("ctx-checkpoints=1", {"ctx-checkpoints": 1}),
    Axis("ctx-checkpoints=2", {"ctx-checkpoints": 2}),
    Axis("checkpoint-min-step=0", {"checkpoint-min-step": 0}),
    Axis("checkpoint-min-step=64", {"checkpoint-min-step": 64}),
    Axis("cache-prompt=off, asked for", {"cache-prompt": False}),
    Axis("cache-ram=0", {"cache-ram": 0}),
    Axis("cache-ram=-1", {"cache-ram": -1}),
    Axis("cache-idle-slots=off", {"cache-idle-slots": False, "kv-unified": True}, pinned=False),
    Axis("kv-unified", {"kv-unified": True}, pinned=False),
    Axis("kv-unified, cache-ram=0", {"kv-unified": True, "cache-ram": 0}, pinned=False),
    Axis("slot-prompt-similarity=0", {"slot-prompt-similarity": 0.0}, pinned=False),
    Axis("slot-prompt-similarity=0.9", {"slot-prompt-similarity": 0.9}, pinned=False),
    Axis("parallel=4", {"parallel": 4}, pinned=False),
    Axis("swa-full", {"swa-full": True}),
    Axis("cache-reuse=8", {"cache-reuse": 8}, approximate=_SHIFTS),
    Axis("n_cache_reuse=8 in the request", fields={"n_cache_reuse": 8}, approximate=_SHIFTS),
    Axis("spec-type=ngram-simple", {"spec-type": "ngram-simple"}),
    Axis("spec-type=ngram-map-k", {"spec-type": "ngram-map-k"}),
    Axis("spec-type=ngram-mod", {"spec-type": "ngram-mod"}),
    Axis("context-shift", {"context-shift": True, "ctx-size": 1024}, {"n_keep": SYSTEM}, approximate=_SHIFTS),
)


def chosen(names: tuple[str, ...]) -> tuple[Axis, ...]:
    """All axes, or those of these names. Raises :class:`UsageError` for another."""
    known = {axis.name: axis for axis in AXES}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--server-options {name!r}: unknown{did_you_mean(name, known)}; choose {choices([ALL, *known])}"
            )
    return tuple(known[name] for name in names) if names else AXES
