"""Sharding plans against an integer oracle: every element of a tensor is named, and a rank must have those of its heads.

The oracle knows no ranges. It names each element of a whole axis (block, head, channel) and keeps, in order, what belongs
to a rank's heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from .parallel import Geometry, ParallelPlan, Range, RankPlan, fitting_degrees, plan_ranks
from .speculation.checks import PlanCheck

__all__ = ["GEOMETRIES", "check_sharding_plans", "problems_of_sharding"]

Name = tuple[str, int, int]
"""Block, head (or channel of the MLP), channel within the head."""

GEOMETRIES = {
    "2 heads": Geometry(2, 2, 4, 4, mla_heads=2, mla_key=3, mla_expanded=5, mla_value=2, inner=8),
    "8 heads": Geometry(8, 8, 4, 3, mla_heads=8, mla_key=3, mla_expanded=5, mla_value=2, inner=16),
    "8 heads, 16 of values": Geometry(8, 16, 4, 6),
    "conv of 4 + 4 + 8": Geometry(2, 4, 2, 2),
}
"""K ≠ V and H ≠ HV among them; the last is the conv state that vLLM's issue 55208 tells of."""


def check_sharding_plans() -> Iterator[PlanCheck]:
    """A row a geometry: exact, or the first degree with a problem."""
    for name, geometry in GEOMETRIES.items():
        yield _check(name, geometry)


def _check(name: str, geometry: Geometry) -> PlanCheck:
    degrees = fitting_degrees(geometry)
    for degree in degrees:
        problems = problems_of_sharding(plan_ranks(geometry, degree), geometry)
        if problems:
            return PlanCheck(f"sharding: {name}", False, problems[0], {"degree": degree})
    fitting = ", ".join(map(str, degrees))
    return PlanCheck(
        f"sharding: {name}", True, f"at degrees {fitting} each rank has the parts of its heads, and no other"
    )


def problems_of_sharding(plan: ParallelPlan, geometry: Geometry) -> list[str]:
    """What is wrong with a plan, in words; nothing for a right one."""
    ranks = range(len(plan.ranks))
    problems = (
        [] if plan.order == tuple(ranks) else [f"sums are added in the order {plan.order} of ranks, not from 0 up"]
    )
    for heads in ("key_heads", "value_heads", "mla_heads", "inner"):
        problems += _shared_out(heads, [getattr(rank, heads) for rank in plan.ranks], getattr(geometry, heads))
    for rank in plan.ranks:
        problems += _groups(rank, geometry)
        problems += [text for tensor in rank.cuts if (text := _cut(rank, tensor, geometry))]
    return problems


def _shared_out(what: str, parts: list[Range], count: int) -> list[str]:
    """Each head has one owner, in the order of the ranks."""
    found = [head for first, end in parts for head in range(first, end)]
    return [] if found == list(range(count)) else [f"{what} {found} of the ranks aren't 0 to {count - 1}, each once"]


def _groups(rank: RankPlan, g: Geometry) -> list[str]:
    """The key head that a value head reads is on the same rank."""
    group = g.value_heads // g.key_heads
    away = [head for head in range(*rank.value_heads) if head // group not in range(*rank.key_heads)]
    return [f"rank {rank.rank}: value head {head} reads key head {head // group} of another rank" for head in away]


def _cut(rank: RankPlan, tensor: str, g: Geometry) -> str | None:
    """The first element of a tensor's cut axis that isn't the rank's."""
    cut, whole = rank.cuts[tensor], _names(tensor, g)
    if whole is None or cut is None:
        same = (cut is None) is (whole is None)
        wanted = "on every rank" if whole is None else "cut by head"
        return None if same else f"rank {rank.rank}: {tensor} must be {wanted}"
    needed = [name for name in whole if name[1] in range(*_heads(rank, name[0]))]
    found = [whole[i] for i in cut.indices()]
    for place, (have, want) in enumerate(zip(found, needed, strict=False)):
        if have != want:
            return f"rank {rank.rank}: element {place} of {tensor} is {_say(have)}; {_say(want)} is needed"
    if len(found) != len(needed):
        return f"rank {rank.rank}: {tensor} has {len(found)} elements; {len(needed)} are needed"
    return None


def _say(name: Name) -> str:
    return f"{name[0]} of head {name[1]}, channel {name[2]}"


def _heads(rank: RankPlan, block: str) -> Range:
    if block in ("q", "k"):
        return rank.key_heads
    return {"mla": rank.mla_heads, "mlp": rank.inner}.get(block, rank.value_heads)


def _names(tensor: str, g: Geometry) -> list[Name] | None:
    """Every element of the axis that is cut; None for a tensor that is on every rank."""

    def block(name: str, heads: int, channels: int) -> list[Name]:
        return [(name, head, channel) for head, channel in product(range(heads), range(channels))]

    def qkv() -> list[Name]:
        return [*block("q", g.key_heads, g.key), *block("k", g.key_heads, g.key), *block("v", g.value_heads, g.value)]

    makers: dict[str, Callable[[], list[Name]]] = {
        **dict.fromkeys(("kda.qkv", "kda.conv", "state.conv"), qkv),
        "kda.f_b": lambda: block("decay", g.value_heads, g.key),
        **dict.fromkeys(("kda.g_b", "kda.o"), lambda: block("output", g.value_heads, g.value)),
        **dict.fromkeys(
            ("kda.b", "kda.A_log", "kda.dt_bias", "state.temporal"), lambda: block("head", g.value_heads, 1)
        ),
        "mla.q": lambda: block("mla", g.mla_heads, g.mla_key),
        "mla.kv_b": lambda: block("mla", g.mla_heads, g.mla_expanded),
        "mla.o": lambda: block("mla", g.mla_heads, g.mla_value),
        **dict.fromkeys(("mlp.gate", "mlp.up", "mlp.down"), lambda: block("mlp", g.inner, 1)),
    }
    return makers[tensor]() if tensor in makers else None
