"""Conversations of one user: long system prompt, stripped reasoning, one-token turns, empty turns, a long document."""

from __future__ import annotations

from collections.abc import Callable

from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.suites.script import group_of

from .scene import Scene

__all__ = ["chat_long_system", "empty_turns", "long_document_qa", "one_token_and_full_hit", "reasoning_stripped"]


def chat_long_system(scene: Scene) -> tuple[GroupSpec, ...]:
    """Two sessions under one long system turn, with tails that are mostly shorter than a chunk."""
    script = scene.script()
    system = script.say("system", scene.say("guide", 1024))
    for _ in range(2):
        last = system
        for _ in range(scene.size.times(12)):
            text = scene.voice.say("chat", scene.draw.between(8, 48))
            last = script.exchange(text, last, scene.out(16, 96))
    return (group_of(scene.label, script),)


def reasoning_stripped(scene: Scene) -> tuple[GroupSpec, ...]:
    """The next prompt holds an answer without its first part, so the state at the answer's end is of no use."""
    script = scene.script()
    # Longer than a chunk in every size, so that a cache without states of prompts' ends finds something, too.
    last = script.say("system", scene.say("guide", 256, least=80))
    for _ in range(scene.size.times(8)):
        question = script.say("user", scene.say("chat", scene.draw.between(32, 96)), last)
        think, visible = scene.out(32, 160), scene.out(16, 64)
        answer = script.answer(question, think + visible, least=think + 1)
        last = script.derive("assistant", answer, question, _without(think))
    return (group_of(scene.label, script),)


def _without(reasoning: int) -> Callable[[str], str]:
    return lambda text: text[reasoning:]


def one_token_and_full_hit(scene: Scene) -> tuple[GroupSpec, ...]:
    """Turns of one token, prompts sent again unchanged, and prompts that are shorter than what is stored."""
    script = scene.script()
    last = script.say("system", scene.say("guide", 96))
    answers = []
    for _ in range(scene.size.times(24)):
        last = script.exchange(scene.voice.say("chat", 1), last, 1)
        answers.append(last)
    for answer in (answers[-1], answers[-1], answers[0], answers[len(answers) // 2]):
        script.ask(answer)
    return (group_of(scene.label, script),)


def empty_turns(scene: Scene) -> tuple[GroupSpec, ...]:
    """Users and answers that say nothing, between others."""
    script = scene.script()
    last = script.say("system", scene.say("guide", 128))
    for user, out in ((40, 0), (0, 30), (1, 0), (0, 0), (64, 0), (30, 30)):
        last = script.exchange(scene.voice.say("chat", user), last, out)
    return (group_of(scene.label, script),)


def long_document_qa(scene: Scene) -> tuple[GroupSpec, ...]:
    """A document of many chunks, questions one after the other, then questions that each begin anew below it."""
    script = scene.script()
    system = script.say("system", scene.say("guide", 256))
    document = script.say("user", scene.say("document", 6000), system)
    last = script.answer(document, scene.out(40, 80))
    first = last
    for _ in range(scene.size.times(5)):
        last = script.exchange(scene.say("ask_document", 25), last, scene.out(40, 80))
    for _ in range(scene.size.times(3)):
        other = script.exchange(scene.say("ask_document", 25), first, scene.out(20, 40))
        script.rewinds(other, first)
    return (group_of(scene.label, script),)
