"""Words for sets of pools, layers and heads: short where they are all meant, exact where they aren't."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from replaycheck.schema.arm import PoolDtype

__all__ = ["Place", "listed", "places", "pools"]

Place = tuple[int, int]
"""(model layer, head), both 0-based."""


def places(found: Iterable[Place], universe: Iterable[Place]) -> str:
    """Say where ``found`` is, out of all recurrent layers and heads in ``universe``.

    >>> places([(0, 0), (0, 1), (2, 0), (2, 1)], [(0, 0), (0, 1), (2, 0), (2, 1)])
    'all 2 KDA layers (0, 2), both heads'
    >>> places([(0, 1)], [(0, 0), (0, 1), (2, 0), (2, 1)])
    'KDA layer 0, head 1'
    """
    layers, heads = _heads_by_layer(found), {head for _, head in universe}
    all_layers = set(_heads_by_layer(universe))
    groups: dict[frozenset[int], list[int]] = {}
    for layer, of_layer in layers.items():
        groups.setdefault(frozenset(of_layer), []).append(layer)
    return "; ".join(f"{_layers(group, all_layers)}, {_heads(of, heads)}" for of, group in groups.items())


def _heads_by_layer(found: Iterable[Place]) -> dict[int, set[int]]:
    heads: dict[int, set[int]] = {}
    for layer, head in sorted(found):
        heads.setdefault(layer, set()).add(head)
    return heads


def _layers(group: list[int], everything: set[int]) -> str:
    listed = ", ".join(map(str, group))
    if len(group) == 1:
        return f"KDA layer {listed}" if len(everything) > 1 else f"the one KDA layer ({listed})"
    return f"all {len(group)} KDA layers ({listed})" if set(group) == everything else f"KDA layers {listed}"


def _heads(group: frozenset[int], everything: set[int]) -> str:
    if group == everything:
        return {1: "its one head", 2: "both heads"}.get(len(group), f"all {len(group)} heads")
    return f"head{'s' if len(group) > 1 else ''} {listed(map(str, sorted(group)))}"


def pools(which: Collection[PoolDtype]) -> str:
    """``the fp32 pool`` or ``the fp32 and fp16 pools``, in the order of declaration."""
    named = [pool.value for pool in PoolDtype if pool in which]
    return f"the {listed(named)} pool{'s' if len(named) > 1 else ''}"


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    every = list(words)
    return ", ".join(every[:-1]) + " and " + every[-1] if len(every) > 1 else "".join(every)
