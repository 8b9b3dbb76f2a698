"""Random answers with speculation, and plans of them run step by step on token lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from replaycheck.schedule.speculation.drafts import draft
from replaycheck.schedule.speculation.method import Setup
from replaycheck.schedule.speculation.planner import Answer, planner
from replaycheck.schedule.speculation.steps import Operation
from replaycheck.schedule.speculation.symbolic import Symbolic, begin, execute
from replaycheck.schedule.speculation.windows import windows_of

VOCABULARY = 50
Change = Callable[[Operation], Operation | None]
Counts = Sequence[tuple[int, int]]


def made(
    prompts: Sequence[int], answer: int, counts: Sequence[Counts], seed: int
) -> tuple[list[tuple[int, ...]], list[Answer]]:
    """Paths and answers of requests with these prompts; ``counts`` are each request's (drafts, accepted)."""
    random, paths, answers = Random(seed), [], []
    for prompt, mine in zip(prompts, counts, strict=True):
        path = tuple(random.randrange(VOCABULARY) for _ in range(prompt + answer))
        events = draft("t", path[prompt:], mine, VOCABULARY, seed)
        answers.append(Answer(prompt, windows_of(path[prompt:], events, "t")))
        paths.append(path)
    return paths, answers


def run(
    setup: Setup, paths: list[tuple[int, ...]], answers: list[Answer], seed: int = 0, change: Change = lambda op: op
) -> Symbolic:
    """All windows, in batches of changing size and order; ``change`` may replace or drop an operation."""
    plan = planner(setup, answers)
    found, random, at = begin(setup, plan, paths), Random(seed), [0] * len(paths)
    while live := [r for r in range(len(paths)) if at[r] < len(answers[r].windows)]:
        batch = random.sample(live, random.randint(1, len(live)))
        operations = [change(op) for op in plan.step([(r, at[r]) for r in batch])]
        execute(found, plan, [op for op in operations if op is not None])
        for r in batch:
            at[r] += 1
    return found
