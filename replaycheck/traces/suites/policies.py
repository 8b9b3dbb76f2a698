"""The suite policies: short groups that use every event, for runs under each policy of a prefix cache.

Parallel sampling and a beam, requests taken off and resumed both ways, batch mates that read one state, sessions that press
each other out of a small pool, states that go to the host and come back, once with the load aborted, prompts sent again
unchanged, and answers in speculation windows.
"""

from __future__ import annotations

from dataclasses import replace

from replaycheck.schema.trace import AbortedLoad, Offload
from replaycheck.traces.specs import GroupSpec

from .archetypes.scene import Scene
from .archetypes.table import ARCHETYPES
from .script import group_of
from .sizes import TINY, Size
from .speculation import with_windows

__all__ = ["policies_specs"]

#: As few turns as tiny has, and texts of twice its length, so that prompts reach over grids of 64 tokens.
_SIZE = Size("policies", 2 * TINY.length, TINY.count)
_TAKEN = ("regenerate_and_fork", "preemption", "shared_fewshot", "eviction_pressure", "one_token_and_full_hit")

#: (drafts, accepted): none, some and all of a window, and steps without drafts.
_WINDOWS = (((3, 0), (3, 3), (0, 0), (3, 1), (3, 2)),)


def policies_specs() -> tuple[GroupSpec, ...]:
    """The specs, without answers."""
    groups = [group for name in _TAKEN for group in ARCHETYPES[name](_scene(name))]
    groups = [_both_ways(group) if group.group.endswith("preemption") else group for group in groups]
    return (*groups, *ARCHETYPES["parallel_sampling_beam"](_scene("parallel_sampling_beam")), _tiers(), _windows())


def _both_ways(group: GroupSpec) -> GroupSpec:
    """The first request that is taken off is computed again; a short suite of the archetype swaps all of its few."""
    first = group.traces[0]
    again = (event.model_copy(update={"resume": "recompute"}) for event in first.events)
    return replace(group, traces=(replace(first, events=tuple(again)), *group.traces[1:]))


def _scene(name: str) -> Scene:
    names = list(ARCHETYPES)
    label = f"{names.index(name) + 1}-{name}" if name in names else name
    return Scene(_SIZE, 0, label, f"policies.{name}")


def _tiers() -> GroupSpec:
    """One session's states go to the host, twice, while another works; the second load is aborted."""
    scene = _scene("tiers")
    mine, other = scene.script("away"), scene.script("there")
    last = mine.exchange(scene.say("chat", 200), mine.say("system", scene.say("guide", 400)), 16)
    mine.event(Offload(kind="offload", turn=last))
    other.exchange(scene.say("chat", 250), other.say("system", scene.say("guide", 200)), 16)
    back = mine.exchange(scene.say("chat", 100), last, 12)
    mine.event(Offload(kind="offload", turn=back))
    other.exchange(scene.say("chat", 100), other.requests[0].turn, 12)
    lost = mine.exchange(scene.say("chat", 100), back, 12)
    mine.event(AbortedLoad(kind="aborted-load", turn=lost))
    turns = zip(mine.requests, other.requests, strict=False)
    requests = [*(each for pair in turns for each in pair), mine.requests[-1]]
    return group_of("serving-tiers", mine, other, name=scene.name, requests=requests)


def _windows() -> GroupSpec:
    """Two answers in windows."""
    scene = _scene("windows")
    script = scene.script()
    last = script.exchange(scene.say("chat", 100), script.say("system", scene.say("guide", 250)), 24, 16)
    script.exchange(scene.say("chat", 150), last, 24, 16)
    return group_of("serving-windows", script, finish=with_windows(_WINDOWS))
