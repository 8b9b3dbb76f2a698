"""Answers regenerated and forked, earlier turns edited, samples in parallel and a beam search."""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.suites.script import Script, group_of

from .scene import Scene

__all__ = ["edit_earlier_turn", "parallel_sampling_beam", "regenerate_and_fork"]


def regenerate_and_fork(scene: Scene) -> tuple[GroupSpec, ...]:
    """An answer regenerated, one of them followed up in several ways, and an old branch taken up again."""
    script = scene.script()
    last = script.exchange(scene.say("chat", 70), script.say("system", scene.say("guide", 256)), scene.out(60, 120))
    question = script.say("user", scene.say("chat", 45), last)
    answers = [script.answer(question, scene.out(50, 135)) for _ in range(1 + scene.size.times(4))]
    script.branches(question)
    follow_ups = [
        script.exchange(scene.say("edit", 63), answers[0], scene.out(30, 64)) for _ in range(scene.size.times(3))
    ]
    script.branches(answers[0])
    old = script.exchange(scene.say("chat", 45), answers[1], scene.out(30, 64))
    script.rewinds(old, answers[1])
    script.ask(answers[0])
    script.rewinds(script.exchange(scene.say("chat", 45), follow_ups[0], scene.out(30, 64)), follow_ups[0])
    return (group_of(scene.label, script),)


def edit_earlier_turn(scene: Scene) -> tuple[GroupSpec, ...]:
    """The last, a middle and the first user turn edited, a turn deleted, the system turn changed.

    What stood after the edit is sent again as it was, so all of it is new to the cache.
    """
    script = scene.script()
    system = script.say("system", scene.say("guide", 512))
    users, answers, last = list[str](), list[str](), system
    for _ in range(scene.size.times(6, 3)):
        users.append(script.say("user", scene.say("chat", 100), last))
        last = script.answer(users[-1], scene.out(30, 60))
        answers.append(last)
    turns = [turn for pair in zip(users, answers, strict=True) for turn in pair][:-1]
    for edited in (len(turns) - 1, len(turns) // 4 * 2, 0):
        after = turns[edited - 1] if edited else system
        new = script.say("user", scene.say("edit", 100), after)
        _repeat(scene, script, new, turns[edited + 1 :])
    middle = len(turns) // 4 * 2
    before = turns[middle - 1] if middle else system
    _repeat(scene, script, before, turns[middle + 2 :])
    _repeat(scene, script, script.say("system", scene.say("guide", 480)), turns)
    return (group_of(scene.label, script),)


def _repeat(scene: Scene, script: Script, after: str, turns: Sequence[str]) -> None:
    """Copies of turns below another one, and a new answer."""
    for turn in turns:
        after = script.derive("user" if turn.startswith("u") else "assistant", turn, after)
    script.rewinds(script.answer(after, scene.out(30, 60)), after)


def parallel_sampling_beam(scene: Scene) -> tuple[GroupSpec, ...]:
    """Several samples of one prompt, each followed up; and a beam whose states are duplicated and dropped."""
    samples = scene.script("samples")
    question = samples.say("user", scene.say("chat", 190), samples.say("system", scene.say("guide", 256)))
    first = samples.answer(question, scene.out(60, 96))
    others = [samples.answer(question, scene.out(60, 96), fork=(first, 0)) for _ in range(3)]
    for answer in (first, *others):
        samples.exchange(scene.say("chat", 21), answer, scene.out(16, 32))
    return (group_of(scene.label, samples), _beam(scene))


def _beam(scene: Scene) -> GroupSpec:
    """Four hypotheses, reordered every seven tokens: one is dropped, another one goes on twice."""
    script, width, every = scene.script("beam"), 4, 7
    reorders = max(scene.size.tokens(63) // every, 2)
    end = (reorders + 1) * every
    question = script.say("user", scene.say("chat", 131), script.say("system", scene.say("guide", 256)))
    plan = _hypotheses(scene, width, reorders)
    names: list[str] = []
    for source, begun, dropped in plan:
        stop = end if dropped is None else dropped * every
        fork = None if source is None else (names[source], begun * every)
        names.append(script.answer(question, stop, least=stop, fork=fork))
    return group_of(scene.label, script)


def _hypotheses(scene: Scene, width: int, reorders: int) -> list[tuple[int | None, int, int | None]]:
    """(source, reorder at which it was forked, reorder at which it was dropped) of each hypothesis."""
    plan: list[tuple[int | None, int, int | None]] = [(0 if i else None, 0, None) for i in range(width)]
    alive = list(range(width))
    for reorder in range(1, reorders + 1):
        dropped = alive.pop(scene.draw.below(width))
        plan[dropped] = (*plan[dropped][:2], reorder)
        alive.append(len(plan))
        plan.append((scene.draw.pick(alive[:-1]), reorder, None))
    return plan
