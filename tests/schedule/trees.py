"""Groups and arms to compile: random trees, and the longest shared prefix found by comparing every token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import strategies as st

from replaycheck.schedule.steps import Compute, RequestPlan, Row, Schedule
from replaycheck.schema.arm import Answers, Arm, CheckpointPolicy, Compiler, Kernel, PoolDtype
from replaycheck.schema.trace import Group, Turn
from replaycheck.state_probes.groups import group, turn
from replaycheck.traces.tree import TokenPath

POLICIES = {
    "grid64": CheckpointPolicy(every=64),
    "grid128": CheckpointPolicy(every=128),
    "prompt": CheckpointPolicy(prompt_end=True),
    "turn": CheckpointPolicy(turn_end=True),
    "grid64+turn": CheckpointPolicy(every=64, turn_end=True),
    "all": CheckpointPolicy(every=64, prompt_end=True, turn_end=True),
}
KERNELS = tuple(product(Kernel, Kernel))


def arm(
    compiler: Compiler,
    policy: str = "grid64+turn",
    kernels: tuple[Kernel, Kernel] = (Kernel.CHUNK, Kernel.CHUNK),
    pool: PoolDtype = PoolDtype.FP32,
    answer: Kernel = Kernel.RECURRENT,
) -> Arm:
    answers = Answers.DECODED if POLICIES[policy].turn_end else Answers.PREFILLED
    return Arm(
        compiler=compiler,
        history=kernels[0],
        tail=kernels[1],
        answer=answer,
        answers=answers,
        pool=pool,
        policy=POLICIES[policy],
        recipe="exact",
    )


def fork() -> Group:
    """Two answers to one question, and two questions after the first answer."""
    turns = [
        turn("s", None, "system", 40),
        turn("u", "s", "user", 50),
        turn("a", "u", "assistant", 20),
        turn("b", "u", "assistant", 9),
        turn("v", "a", "user", 70),
        turn("c", "v", "assistant", 5),
        turn("w", "a", "user", 30),
        turn("d", "w", "assistant", 0),
    ]
    return group(turns, ["a", "b", "c", "d", "a"])


@st.composite
def random_groups(draw: st.DrawFn) -> Group:
    """Trees of questions with one or two answers each, empty ones too, asked for in any order, some twice."""
    lengths = st.integers(0, 90)
    turns: list[Turn] = []
    answers: list[str] = []
    for i in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from([None, *answers]))
        turns.append(turn(f"u{i}", parent, "user", draw(lengths)))
        for j in range(draw(st.integers(1, 2))):
            answers.append(f"a{i}.{j}")
            turns.append(turn(answers[-1], f"u{i}", "assistant", draw(lengths)))
    return group(turns, draw(st.lists(st.sampled_from(answers), min_size=1, max_size=7)))


def origin(path: TokenPath, count: int) -> list[tuple[str, int]]:
    """Where the first ``count`` tokens come from, token by token. A role token is the same for all siblings."""
    labels = [(path.trace, 0)]
    for name, start, end in path.nodes:
        labels += [("role", path.tokens[start]), *((name, offset) for offset in range(1, end - start))]
    return labels[:count]


def longest_stored(index: int, plans: Sequence[RequestPlan], paths: Sequence[TokenPath]) -> int:
    """Tokens of the longest checkpoint of earlier requests that is a proper prefix of the prompt; 0: none is."""
    mine = origin(paths[index], paths[index].prompt - 1)
    return max(
        (
            checkpoint.position
            for plan, path in zip(plans[:index], paths[:index], strict=True)
            for checkpoint in plan.creates
            if checkpoint.position < paths[index].prompt
            and origin(path, checkpoint.position) == mine[: checkpoint.position]
        ),
        default=0,
    )


def rows(schedule: Schedule) -> list[Row]:
    return [row for step in schedule.steps if isinstance(step, Compute) for row in step.rows]
