"""Sessions of equal shape, made of real text, as schedules of one cold and one warm arm.

Equal lengths keep all sessions and both arms in phase, so each forward pass is all prefill or all decode and their times can
be told apart; and transformers can take all sessions in one batch without padding. States are stored at each turn's end and
nowhere inside a call, so both sides make the same calls: whole prompts (cold) or their tails (warm), then single tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replaycheck.errors import UsageError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Answers, Arm, Compiler, Kernel, PoolDtype
from replaycheck.schema.policy import CheckpointPolicy
from replaycheck.schema.trace import TRACE_SCHEMA, Group, Request, Role, Trace, Turn
from replaycheck.traces.tree import request_paths
from replaycheck.traces.vocabulary import END, NAME, ROLE_TOKENS, TEXT_SIZE, decode

__all__ = ["ARMS", "Sizes", "schedules", "text_of"]

_FRAME = 3
"""Tokens of a turn's prompt that aren't text: the user's role, END, the answer's role."""


@dataclass(frozen=True)
class Sizes:
    """sessions: how many. turns: answers a session. prompt: new tokens before each answer. answer: its tokens, END included.

    Raises:
        UsageError: a prompt or an answer without text.
    """

    sessions: int
    turns: int
    prompt: int
    answer: int

    def __post_init__(self) -> None:
        if self.prompt <= _FRAME or self.answer < 2 or self.sessions < 1 or self.turns < 1:
            raise UsageError(
                f"{self.sessions} sessions of {self.turns} turns of {self.prompt} + {self.answer} tokens; "
                f"a prompt needs {_FRAME + 1} tokens or more, an answer 2, and there must be a session and a turn"
            )

    @property
    def positions(self) -> int:
        """Scored positions of one arm."""
        return self.sessions * self.turns * self.answer


def arm(compiler: Compiler, recipe: str) -> Arm:
    """Chunk kernel for prompts, recurrent for answers, which stay in the state as they were decoded; fp32 pool."""
    return Arm(
        compiler=compiler,
        history=Kernel.CHUNK,
        tail=Kernel.CHUNK,
        answers=Answers.DECODED,
        pool=PoolDtype.FP32,
        policy=CheckpointPolicy(turn_end=True),
        recipe=recipe,
    )


ARMS = (Compiler.COLD, Compiler.WARM)


def schedules(sizes: Sizes, text: Sequence[int], recipe: str) -> list[tuple[Schedule, ...]]:
    """For each session its schedules, cold then warm."""
    groups = [_session(sizes, text, index) for index in range(sizes.sessions)]
    return [tuple(compile_schedule(group, arm(compiler, recipe)) for compiler in ARMS) for group in groups]


def text_of(groups: Sequence[Group]) -> list[int]:
    """The text tokens of the longest path of each group, one after the other."""
    longest = [max(request_paths(group), key=lambda path: path.end).tokens for group in groups]
    return [token for path in longest for token in path if token < TEXT_SIZE]


def _session(sizes: Sizes, text: Sequence[int], index: int) -> Group:
    """Sessions begin at places of the text spread evenly, so no two are the same and nothing is computed once for two."""
    if len(text) < sizes.sessions:
        raise UsageError(
            f"{len(text)} tokens of text for {sizes.sessions} sessions; give fewer sessions or more traces"
        )
    at = index * (len(text) // sizes.sessions)
    turns: list[Turn] = []
    lengths: tuple[tuple[Role, int], ...] = (("user", sizes.prompt - _FRAME), ("assistant", sizes.answer - 1))
    for number in range(sizes.turns):
        for role, length in lengths:
            content = [text[(at + i) % len(text)] for i in range(length)]
            at += length
            turns.append(_turn(role, number, content, turns[-1].id if turns else None))
    name = f"session{index}"
    requests = tuple(Request(trace=name, turn=each.id) for each in turns if each.role == "assistant")
    return Group(
        schema=TRACE_SCHEMA,
        group=name,
        vocabulary=NAME,
        traces=(Trace(id=name, turns=tuple(turns)),),
        requests=requests,
    )


def _turn(role: Role, number: int, content: Sequence[int], parent: str | None) -> Turn:
    tokens = (ROLE_TOKENS[role], *content, END)
    return Turn(id=f"{role}{number}", parent=parent, role=role, text=decode(content), tokens=tokens)
