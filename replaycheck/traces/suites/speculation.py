"""The speculation suite: three conversations whose answers are decoded in windows, with right and wrong drafts.

Accepted counts go from none to all of a window; two windows follow each other, and steps without drafts lie between them.
Prompts end so that windows start before, on and after chunk ends; the last window ends with its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replaycheck.schedule.speculation.drafts import draft
from replaycheck.schema.trace import Group, Request, Trace
from replaycheck.traces.suites import texts
from replaycheck.traces.synth import Answer, GroupSpec, Say, TraceSpec
from replaycheck.traces.tree import TraceTree
from replaycheck.traces.vocabulary import TEXT_SIZE

__all__ = ["Counts", "speculation_specs", "with_windows"]

#: (drafts, accepted) of the windows of an answer, repeated as often as needed.
Counts = tuple[tuple[int, int], ...]

EVERY_COUNT: Counts = ((3, 0), (3, 1), (3, 2), (3, 3), (0, 0), (1, 1), (1, 0))
LONG: Counts = ((7, 7), (7, 0), (7, 4), (7, 1), (0, 0), (0, 0))
REJECTED: Counts = ((3, 0),)
ACCEPTED: Counts = ((3, 3),)

_PADDING = "Say a little more about that, please."


def with_windows(counts: Sequence[Counts]) -> Callable[[Group, int], Group]:
    """What gives the answers of a built group their windows; each trace's answers take the patterns in turn."""

    def finish(group: Group, seed: int) -> Group:
        traces = tuple(_with_windows(trace, counts, seed) for trace in group.traces)
        return group.model_copy(update={"traces": traces})

    return finish


def _with_windows(trace: Trace, counts: Sequence[Counts], seed: int) -> Trace:
    """The answers take the patterns in turn."""
    tree, events = TraceTree(trace), list(trace.events)
    answers = [turn.id for turn in trace.turns if turn.role == "assistant"]
    for number, turn in enumerate(answers):
        answer, pattern = tree.path(turn).answer, counts[number % len(counts)]
        events += draft(turn, answer, pattern * len(answer), TEXT_SIZE, seed + number)
    return trace.model_copy(update={"events": tuple(events)})


def speculation_specs() -> tuple[GroupSpec, ...]:
    """The specs, without answers."""
    return (
        _chat("spec_chat", texts.GARDEN_GUIDE, texts.GARDEN_QUESTIONS, (None,) * 4, (EVERY_COUNT, LONG)),
        # Answers of up to 24 tokens that run over 128, 192 and 256.
        _chat("spec_edges", texts.BRIEF, texts.SHORT_QUESTIONS, (126, 188, 255), (ACCEPTED, EVERY_COUNT, LONG)),
        _chat("spec_rejected", texts.RIDDLER, texts.SHORT_FOLLOW_UPS[:2], (None, None), (REJECTED, LONG)),
    )


def _chat(
    name: str, system: str, questions: Sequence[str], ends: Sequence[int | None], counts: Sequence[Counts]
) -> GroupSpec:
    """A system turn, then questions and their answers in one line, the prompts ending where they are told to."""
    turns: list[Say | Answer] = [Say("s", None, "system", system)]
    for number, (text, end) in enumerate(zip(questions, ends, strict=True), 1):
        turns.append(Say(f"u{number}", turns[-1].id, "user", text, end, _PADDING))
        turns.append(Answer(f"a{number}", f"u{number}", 24))
    asked = [turn.id for turn in turns if isinstance(turn, Answer)]
    return GroupSpec(
        group=name,
        archetype=f"6-{name}",
        traces=(TraceSpec(name, tuple(turns)),),
        requests=tuple(Request(trace=name, turn=turn) for turn in asked),
        finish=with_windows(counts),
    )
