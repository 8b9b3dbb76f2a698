"""Plans of every method swept over prompts, drafts and accepted counts round boundaries: exact, or the smallest example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from .drafts import draft
from .method import Rollback, Setup
from .planner import Answer, planner
from .symbolic import begin, execute
from .windows import windows_of

WIDTH, BLOCK, RING = 4, 5, 7
VOCABULARY = 64
SETUPS = {
    "slots": Setup(Rollback.SLOTS, WIDTH),
    "slots, aligned blocks": Setup(Rollback.SLOTS, WIDTH, block=BLOCK),
    "copy, tracked": Setup(Rollback.COPY, WIDTH, interval=BLOCK),
    "recover": Setup(Rollback.RECOVER, WIDTH),
    "recover, aligned blocks": Setup(Rollback.RECOVER, WIDTH, block=BLOCK),
    "replay": Setup(Rollback.REPLAY, WIDTH, capacity=WIDTH),
    "replay, lagging": Setup(Rollback.REPLAY, WIDTH, capacity=RING),
}


@dataclass(frozen=True)
class PlanCheck:
    """One answer, as ``replaycheck_kernels.speculation.checks.Check``."""

    name: str
    exact: bool
    sentence: str
    values: dict[str, int] = field(default_factory=dict)


def check_plans() -> Iterator[PlanCheck]:
    """A row a method."""
    for name, setup in SETUPS.items():
        yield _check(name, setup)


def _check(name: str, setup: Setup) -> PlanCheck:
    """Two requests; the prompts put windows before, on and after each boundary. Small examples come first."""
    count = 0
    for prompt, drafts in product(range(1, 2 * BLOCK + 1), range(WIDTH)):
        for accepted in range(drafts + 1):
            problems = problems_of(setup, prompt, drafts, accepted)
            if problems:
                values = {"prompt": prompt, "drafts": drafts, "accepted": accepted}
                return PlanCheck(f"plan: {name}", False, problems[0], values)
            count += 1
    return PlanCheck(f"plan: {name}", True, f"{count} accept patterns leave every slot, window and cache as planned")


def problems_of(setup: Setup, prompt: int, drafts: int, accepted: int) -> list[str]:
    """Two requests in one batch, the second a token ahead and without drafts in every other step."""
    length, paths, answers = 3 * WIDTH, list[tuple[int, ...]](), list[Answer]()
    for request in range(2):
        path = tuple((7 * i + request) % VOCABULARY for i in range(prompt + request + length))
        counts = [(drafts, accepted), (0, 0) if request else (drafts, accepted)] * length
        answer = path[prompt + request :]
        events = draft("t", answer, counts, VOCABULARY, seed=request)
        answers.append(Answer(prompt + request, windows_of(answer, events, "sweep")))
        paths.append(path)
    plan = planner(setup, answers)
    run = begin(setup, plan, paths)
    for index in range(max(len(answer.windows) for answer in answers)):
        batch = [(r, index) for r in (1, 0) if index < len(answers[r].windows)]
        execute(run, plan, plan.step(batch))
    return run.problems
