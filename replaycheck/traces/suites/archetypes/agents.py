"""Agents: a loop of tools, context that is compacted and returned to, sub-agents."""

from __future__ import annotations

from replaycheck.schema.trace import Offload, Request
from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.suites.script import Script, group_of

from .scene import Scene

__all__ = ["agent_tool_loop", "context_compaction", "subagent_fanout"]


def agent_tool_loop(scene: Scene) -> tuple[GroupSpec, ...]:
    """Two agents with the same tools; what tools return is long-tailed, and prompts only grow."""
    script = scene.script()
    system = script.say("system", scene.say("tools", 1536))
    for _ in range(2):
        last = script.exchange(scene.say("task", 150), system, scene.out(16, 128))
        for _ in range(scene.size.times(16) - 1):
            result = scene.say("result", scene.draw.skewed(32, 768))
            last = script.exchange(result, last, scene.out(16, 128), role="tool")
    return (group_of(scene.label, script),)


def context_compaction(scene: Scene) -> tuple[GroupSpec, ...]:
    """After some turns only tools and a summary are kept; later the client goes back to the long context."""
    script = scene.script()
    system = script.say("system", scene.say("tools", 1024))
    last, turns = system, []
    for _ in range(scene.size.times(10, 3)):
        last = script.exchange(scene.say("result", 200), last, scene.out(32, 64), role="tool")
        turns.append(last)
    script.branches(system)
    last = script.exchange(scene.say("summary", 300), system, scene.out(32, 64))
    script.rewinds(last, system)
    for _ in range(scene.size.times(3)):
        last = script.exchange(scene.say("result", 200), last, scene.out(32, 64), role="tool")
    back = script.exchange(scene.say("edit", 60), turns[-1], scene.out(32, 64))
    script.rewinds(back, turns[-1])
    return (group_of(scene.label, script),)


def subagent_fanout(scene: Scene) -> tuple[GroupSpec, ...]:
    """A parent waits, its states on the host, while children with another prefix take turns; it goes on with their ends."""
    parent, children = scene.script("parent", scene.name), scene.script("children", scene.name)
    last = parent.exchange(scene.say("task", 60), parent.say("system", scene.say("tools", 768)), scene.out(20, 40))
    last = parent.exchange(scene.say("result", 80), last, scene.out(30, 60), role="tool")
    parent.event(Offload(kind="offload", turn=last))
    before = list(parent.requests)
    ends = _children(scene, children)
    for end in ends:
        last = parent.derive("tool", end, last, lambda text: f"report: {text}", children.trace)
        last = parent.answer(last, scene.out(20, 40))
    last = parent.exchange(scene.say("summary", 260), last, scene.out(30, 60))
    after = parent.requests[len(before) :]
    return (group_of(scene.label, parent, children, name=scene.name, requests=[*before, *children.requests, *after]),)


def _children(scene: Scene, script: Script) -> list[str]:
    """The last answer of each child. Their requests take turns."""
    system = script.say("system", scene.say("tools", 384))
    asked: list[list[Request]] = []
    ends = []
    for _ in range(scene.size.times(4)):
        script.requests = []
        last = script.exchange(scene.say("subtask", 70), system, scene.out(15, 30))
        for _ in range(scene.size.times(3) - 1):
            last = script.exchange(scene.say("result", 110), last, scene.out(15, 30), role="tool")
        ends.append(last)
        asked.append(script.requests)
    script.requests = [child[turn] for turn in range(len(asked[0])) for child in asked]
    return ends
