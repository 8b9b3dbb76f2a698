"""What a busy engine does: speculation, preemption, many readers of one state, eviction."""

from __future__ import annotations

from replaycheck.traces.specs import GroupSpec
from replaycheck.traces.suites.script import group_of
from replaycheck.traces.suites.speculation import Counts, with_windows

from .scene import Scene

__all__ = ["eviction_pressure", "preemption", "shared_fewshot", "spec_decode"]


def _patterns(k: int) -> tuple[Counts, ...]:
    """All accepted, all rejected, in turn, a ramp, and mixed counts; (k, count) of each window."""
    ramp = (*range(k + 1), *range(k - 1, 0, -1))
    mixed = (k - 1, k, 1, k, min(2, k), 0, k, k, 0, 1)
    return tuple(tuple((k, count) for count in counts) for counts in ((k,), (0,), (k, 0), ramp, mixed))


def spec_decode(scene: Scene) -> tuple[GroupSpec, ...]:
    """Windows of four drafts with five patterns of acceptance; then of one, two and eight with the last two patterns."""
    specs = []
    for k in (4, 1, 2, 8):
        script, patterns = scene.script(f"k{k}"), _patterns(k) if k == 4 else _patterns(k)[-2:]
        last = script.say("system", scene.say("guide", 256))
        for _ in patterns:
            last = script.exchange(scene.say("chat", 47), last, scene.size.tokens(72, 24), scene.size.tokens(48, 16))
        specs.append(group_of(scene.label, script, finish=with_windows(patterns)))
    return tuple(specs)


#: Tokens into a prompt, and into an answer, after which a request is taken off.
_IN_PROMPT = (1, 63, 64, 200)
_IN_ANSWER = (1, 63, 65)

# Of prompts that are stopped after 64 tokens at most, and after 200.
_SHORT_PROMPT, _LONG_PROMPT = 100, 240


def preemption(scene: Scene) -> tuple[GroupSpec, ...]:
    """A request taken off in its prompt or its answer, recomputed or swapped, while another one runs; then a second turn.

    Each has a prompt of its own, so ``after`` counts from its first token.
    """
    scripts = []
    for point, swap in _stops(scene):
        script = scene.script(f"{'swap' if swap else 'again'}-{point}")
        prompt = _LONG_PROMPT if point == "prompt200" else _SHORT_PROMPT
        count = int(point.removeprefix("prompt").removeprefix("answer"))
        late = count if point.startswith("answer") else 0
        system = script.say("system", scene.voice.say("guide", 50))
        answer = script.answer(
            script.say("user", scene.voice.say("chat", 60), system, prompt),
            max(scene.size.tokens(96), late + 8),
            least=late + 2,
        )
        script.preempts(answer, prompt + late if late else count, swap)
        script.exchange(scene.say("chat", 40), answer, scene.out(16, 32))
        scripts.append(script)
    # First turns one after the other, so that each runs while the one before it waits; then the second turns.
    requests = [script.requests[turn] for turn in (0, 1) for script in scripts]
    return (group_of(scene.label, *scripts, name=scene.name, requests=requests),)


def _stops(scene: Scene) -> list[tuple[str, bool]]:
    """Where a request stops, and whether it is swapped: all for large, half of them in turn for the others."""
    points = [*(f"prompt{count}" for count in _IN_PROMPT), *(f"answer{count}" for count in _IN_ANSWER)]
    every = [(point, swap) for point in points for swap in (False, True)]
    if scene.size.count == 1:
        return every
    half = [(point, index % 2 == 0) for index, point in enumerate(points)]
    return half if scene.size.count > 0.3 else [half[scene.draw.below(3)], half[4]]


def shared_fewshot(scene: Scene) -> tuple[GroupSpec, ...]:
    """One request stores a long prefix, then many read it at once, in one batch, and a few come late."""
    script = scene.script()
    shots = script.say("user", scene.say("shots", 640), script.say("system", scene.say("guide", 256)))
    last = script.answer(shots, 0)
    script.exchange(scene.say("shot_question", 40), last, scene.out(4, 24))
    together = [
        script.exchange(scene.say("shot_question", scene.draw.between(17, 90)), last, scene.out(4, 24))
        for _ in range(scene.size.times(10, 3))
    ]
    script.batches(together)
    script.exchange(scene.say("shot_question", 40), last, scene.out(4, 24))
    return (group_of(scene.label, script),)


def eviction_pressure(scene: Scene) -> tuple[GroupSpec, ...]:
    """Sessions asked forwards, then backwards, and so on: with a small pool the states of a session's end are gone.

    How much fits is the policy's ``capacity``; each request writes about three checkpoints.
    """
    scripts = []
    for number in range(scene.size.times(12)):
        script = scene.script(f"v{number}")
        last = script.say("system", scene.say("guide", 128))
        for _ in range(scene.size.times(5, 3)):
            last = script.exchange(scene.say("chat", 90), last, scene.out(20, 40))
        scripts.append(script)
    rounds = [[script.requests[turn] for script in scripts] for turn in range(len(scripts[0].requests))]
    requests = [each for number, asked in enumerate(rounds) for each in (asked[::-1] if number % 2 else asked)]
    return (group_of(scene.label, *scripts, name=scene.name, requests=requests),)
