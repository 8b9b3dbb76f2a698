"""Positions and tails round grids: prompts that end where they are told to, with answers of a given length.

A conversation's first answer is empty, so its prompt, its turn's end and the state both leave lie on one position, P. What
goes on from it ends d tokens later. A turn and two markers take four tokens, so shorter tails are made by prompts that are
sent again: their last checkpoint lies 64·i tokens from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.suites.script import group_of

from .scene import Scene

__all__ = ["TAILS", "boundary", "chunk_edges", "long_decode_drift"]

#: Shortest tail of a new turn: END, user, one character, END, assistant.
_SHORTEST = 5
TAILS = (_SHORTEST, 62, 63, 64, 65, 66, 127, 128, 129)

_CHUNK_EDGES = (63, 64, 65, 127, 128, 129)
_PAGES = (15, 16, 17, 31, 32, 33)
_BLOCKS = (191, 192, 193, 255, 256, 257)
_FAR = (511, 512, 513, 1023, 1024, 1025)


def chunk_edges(scene: Scene) -> tuple[GroupSpec, ...]:
    """Every restore position round two chunk ends with every tail, the answers crossing the next chunk's end."""
    if scene.size.count < 0.3:
        return (_tails(scene, scene.draw.pick(_CHUNK_EDGES), scene.draw.pick((TAILS[:3], TAILS[3:6]))),)
    positions = _CHUNK_EDGES if scene.size.count > 0.5 else (63, 64, 129)
    tails = TAILS if scene.size.count > 0.5 else TAILS[::2]
    return tuple(_tails(scene, position, tails) for position in positions)


def boundary(scene: Scene) -> tuple[GroupSpec, ...]:
    """Every position round the chunk, page and block grids with every tail, and prompts sent again round the grids."""
    positions: tuple[int, ...] = (*_PAGES, *_CHUNK_EDGES)
    positions += _BLOCKS if scene.size.count > 0.5 else (255, 256, 257)
    positions += _FAR if scene.size.count == 1 else ()
    again = tuple(base + offset for base in sorted({*positions[1::3]}) for offset in (-1, 0, 1, 2))
    halves = [again[i : i + 8] for i in range(0, len(again), 8)]
    return (
        *(_tails(scene, position, TAILS) for position in positions),
        *(_again(scene, number, ends) for number, ends in enumerate(halves)),
        _decoded(scene, positions[1::3]),
    )


def _tails(scene: Scene, position: int, tails: Sequence[int]) -> GroupSpec:
    """One restore position, and turns below it of every tail."""
    script = scene.script(f"p{position}")
    root = script.say("user", scene.voice.say("chat", position), None, position)
    last = script.answer(root, 0)
    for index, tail in enumerate(tails):
        question = script.say("user", scene.voice.say("edit", tail), last, position + tail)
        limit = (1, 4, 62, 65)[index % 4] if scene.size.count > 0.5 else (1, 2, 4, 8)[index % 4]
        script.answer(question, limit, least=limit)
    return group_of(scene.label, script)


def _again(scene: Scene, number: int, ends: Sequence[int]) -> GroupSpec:
    """Prompts that end at these positions, each sent twice."""
    scripts = []
    for end in ends:
        script = scene.script(f"again{end}")
        answer = script.answer(script.say("user", scene.voice.say("chat", end), None, end), 3)
        script.ask(answer)
        scripts.append(script)
    return group_of(scene.label, *scripts, name=f"{scene.name}.again{number}")


def _decoded(scene: Scene, positions: Sequence[int]) -> GroupSpec:
    """Answers that end one before, on and one after these positions, and go on from there."""
    scripts = []
    for position in positions:
        for end in (position - 1, position, position + 1):
            script = scene.script(f"to{end}")
            start = max(end - 12, 6)
            answer = script.answer(
                script.say("user", scene.voice.say("chat", start), None, start), end - start, end - start
            )
            script.exchange(scene.voice.say("edit", 9), answer, 4)
            scripts.append(script)
    return group_of(scene.label, *scripts, name=f"{scene.name}.decoded")


def long_decode_drift(scene: Scene) -> tuple[GroupSpec, ...]:
    """A long answer at one go, its state swapped out and in once; and as long a one in legs, with a restore before each."""
    script, length = scene.script("whole"), scene.size.tokens(2048)
    question = script.say("user", scene.say("document", 200), None, scene.size.tokens(256, 64))
    answer = script.answer(question, length, least=length)
    script.preempts(answer, scene.size.tokens(256, 64) + length // 2, swap=True)
    script.exchange(scene.say("go_on", 10), answer, 8)
    legs = tuple(_legs(scene, leg, length) for leg in ((64, 100, 256) if scene.size.count > 0.5 else (64, 100)))
    return (group_of(scene.label, script), *legs)


def _legs(scene: Scene, leg: int, length: int) -> GroupSpec:
    script = scene.script(f"legs{leg}")
    last = script.exchange(scene.say("document", 200), None, leg, leg)
    for _ in range(max(length // leg - 1, 2)):
        last = script.exchange(scene.voice.say("go_on", 5), last, leg, leg)
    return group_of(scene.label, script)
