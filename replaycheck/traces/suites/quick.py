"""The quick suite: eight small conversations, one a group, that touch every way in which a state is reused.

Sizes are chosen for a laptop: at most 4,500 tokens in all trees, prompts of at most 14,000 tokens in all requests.
Archetypes are numbered as in the field's list: 1 long system prompt, 2 agent with tools, 4 regenerate and fork,
11 chunk edges, 12 one token and full hit, 14 long document. Siblings start with different characters, so that a cache
that matches tokens and one that matches turns find the same prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaycheck.schema.trace import Branch, Event, Request, Rewind
from replaycheck.traces.suites import texts
from replaycheck.traces.synth import Answer, GroupSpec, Say, TraceSpec

__all__ = ["TEMPERATURE", "quick_specs"]

#: Of the sampler that builds the suite: the model's own distribution.
TEMPERATURE = 1.0

Turns = tuple[Say | Answer, ...]


def quick_specs() -> tuple[GroupSpec, ...]:
    """The specs, without answers."""
    return (
        _chat_long_system(),
        _agent_tool_loop(),
        _regenerate_and_fork(),
        _one_token_and_full_hit(),
        _edges_64(),
        _edges_128(),
        _long_document_qa(),
        _long_tail(),
    )


def _group(
    name: str, archetype: int, turns: Turns, requests: Sequence[str] = (), events: tuple[Event, ...] = ()
) -> GroupSpec:
    """A group of one trace; by default it asks for every answer once, in file order."""
    wanted = requests or [turn.id for turn in turns if isinstance(turn, Answer)]
    return GroupSpec(
        group=name,
        archetype=f"{archetype}-{name}",
        traces=(TraceSpec(name, turns, events),),
        requests=tuple(Request(trace=name, turn=turn) for turn in wanted),
    )


def _chat(system: str, exchanges: Sequence[tuple[str, int]]) -> Turns:
    """A system turn, then user turns and their answers in one line: s, u1, a1, u2, a2 …"""
    turns: list[Say | Answer] = [Say("s", None, "system", system)]
    for number, (text, limit) in enumerate(exchanges, 1):
        turns.append(Say(f"u{number}", turns[-1].id, "user", text))
        turns.append(Answer(f"a{number}", f"u{number}", limit))
    return tuple(turns)


def _chat_long_system() -> GroupSpec:
    """Tails shorter than a chunk after a long shared start."""
    questions = zip(texts.GARDEN_QUESTIONS, (24, 20, 16, 24), strict=True)
    return _group("chat_long_system", 1, _chat(texts.GARDEN_GUIDE, list(questions)))


def _agent_tool_loop() -> GroupSpec:
    """Append-only growth: every tool result is a tail that follows the agent's own answer."""
    turns: list[Say | Answer] = [
        Say("s", None, "system", texts.STATION_TOOLS),
        Say("u1", "s", "user", texts.STATION_TASK),
        Answer("a1", "u1", 24),
    ]
    for number, result in enumerate(texts.STATION_RESULTS, 1):
        turns.append(Say(f"t{number}", f"a{number}", "tool", result))
        turns.append(Answer(f"a{number + 1}", f"t{number}", 24))
    turns += [Say("u2", "a4", "user", texts.STATION_THANKS), Answer("a5", "u2", 32)]
    return _group("agent_tool_loop", 2, tuple(turns))


def _regenerate_and_fork() -> GroupSpec:
    """One prompt answered three times, two follow-ups of one answer, and an old branch taken up again."""
    show_fix, write_test, no_sort, add_types = texts.MEDIAN_FOLLOW_UPS
    turns: Turns = (
        Say("s", None, "system", texts.REVIEWER),
        Say("u1", "s", "user", texts.MEDIAN),
        Answer("a1", "u1", 24),
        Answer("a1b", "u1", 24),
        Answer("a1c", "u1", 24),
        Say("u2", "a1", "user", show_fix),
        Answer("a2", "u2", 24),
        Say("u2b", "a1", "user", write_test),
        Answer("a2b", "u2b", 24),
        Say("u3", "a1b", "user", no_sort),
        Answer("a3", "u3", 16),
        Say("u4", "a2", "user", add_types),
        Answer("a4", "u4", 24),
    )
    events: tuple[Event, ...] = (
        Branch(kind="branch", turn="u1"),
        Rewind(kind="rewind", turn="a1c", to="a1"),
        Branch(kind="branch", turn="a1"),
        Rewind(kind="rewind", turn="a2b", to="a1b"),
        Rewind(kind="rewind", turn="a3", to="a2"),
    )
    return _group("regenerate_and_fork", 4, turns, events=events)


def _one_token_and_full_hit() -> GroupSpec:
    """User turns of one character, prompts sent again unchanged, and a prompt one token shorter than what is stored.

    a4 is empty: its turn ends one token (END) after its prompt, so that asking for it again finds a state of the
    turn's end that is one token too long.
    """
    exchanges = [("Is it alive?", 16), ("?", 12), ("y", 12), ("n", 0), ("!", 12), ("0", 1)]
    requests = ("a1", "a2", "a3", "a3", "a4", "a4", "a5", "a1", "a6")
    return _group("one_token_and_full_hit", 12, _chat(texts.RIDDLER, exchanges), requests)


def _edges(name: str, rounds: Sequence[tuple[Sequence[str], Sequence[int]]]) -> GroupSpec:
    """Three conversations under one system turn; the prompts of each round end at the given positions.

    A round's requests come before the next round's, so that the three states lie in the pool together.
    """
    turns: list[Say | Answer] = [Say("s", None, "system", texts.BRIEF)]
    for number, (questions, ends) in enumerate(rounds, 1):
        for letter, text, end in zip("xyz", questions, ends, strict=True):
            parent = f"{letter}a{number - 1}" if number > 1 else "s"
            turns.append(Say(f"{letter}u{number}", parent, "user", text, end, "Say a little more about that, please."))
            turns.append(Answer(f"{letter}a{number}", f"{letter}u{number}", 16))
    return _group(name, 11, tuple(turns))


def _edges_64() -> GroupSpec:
    """Prompts that end one before, on and one after the chunk boundaries 64, 128 and 192."""
    rounds = [
        (texts.SHORT_QUESTIONS, (63, 64, 65)),
        (texts.SHORT_FOLLOW_UPS, (127, 128, 129)),
        (texts.SHORT_CLOSINGS, (191, 192, 193)),
    ]
    return _edges("edges_64", rounds)


def _edges_128() -> GroupSpec:
    """Prompts round 128, then round 192 in the other order: tails of 66, 64 and 62 tokens."""
    rounds = [(texts.LONG_QUESTIONS, (127, 128, 129)), (texts.LONG_FOLLOW_UPS, (193, 192, 191))]
    return _edges("edges_128", rounds)


def _long_document_qa() -> GroupSpec:
    """A document of several chunks; later tails are longer than one chunk."""
    first, second = texts.LOGBOOK_QUESTIONS
    return _group("long_document_qa", 14, _chat(texts.BRIEF, [(texts.LOGBOOK, 16), (first, 24), (second, 32)]))


def _long_tail() -> GroupSpec:
    """Restores whose tail spans three chunks and more: a paste of code, then one of a log."""
    exchanges = [(texts.TICKET, 16), (texts.EXPORT_CODE, 24), (texts.EXPORT_LOG, 32)]
    return _group("long_tail", 14, _chat(texts.REVIEWER, exchanges))
