"""Small groups in which faults are planted, by name and seed: the seed draws the letters, the lengths are chosen.

Lengths put restores on the chunk grid and off it, and make turns, forks, batch mates, preemptions, tiers and windows happen
once each. A prompt has four tokens that aren't text (bos, the user's role, its end, the answer's role).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters

from replaycheck.schema.trace import AbortedLoad, BatchMates, Fork, Group, Offload, Preemption, Role, Turn
from replaycheck.state_probes.groups import Counts, group, windowed, with_events
from replaycheck.traces.vocabulary import turn_tokens

__all__ = ["WORKLOADS", "workload"]


class _Writer:
    """Turns of random letters."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def text(self, length: int) -> str:
        return "".join(self._draw.choices(ascii_letters, k=length))

    def turn(self, name: str, parent: str | None, role: Role, length: int) -> Turn:
        return self.saying(name, parent, role, self.text(length))

    def saying(self, name: str, parent: str | None, role: Role, text: str) -> Turn:
        return Turn(id=name, parent=parent, role=role, text=text, tokens=tuple(turn_tokens(role, text)))

    def chain(self, *lengths: int) -> Group:
        """User and assistant turns in one line, asked for in order."""
        roles: tuple[Role, Role] = ("user", "assistant")
        turns: list[Turn] = []
        for i, length in enumerate(lengths):
            parent = turns[-1].id if turns else None
            turns.append(self.turn(f"{'ua'[i % 2]}{i // 2}", parent, roles[i % 2], length))
        return group(turns, [each.id for each in turns if each.role == "assistant"])

    def answers(self, parent: str, names: Sequence[str], lengths: Sequence[int], shared: Sequence[int]) -> list[Turn]:
        """Answers to one turn; each begins with so many letters of the first."""
        first = self.text(lengths[0])
        texts = [
            first,
            *(first[:same] + self.text(size - same) for size, same in zip(lengths[1:], shared[1:], strict=True)),
        ]
        return [self.saying(name, parent, "assistant", text) for name, text in zip(names, texts, strict=True)]

    def pairs(self, *sizes: tuple[str, str | None, int, int]) -> list[Turn]:
        """Questions and answers: (name, parent, letters of the question, of the answer)."""
        turns = []
        for name, parent, question, answer in sizes:
            turns += [self.turn(f"u{name}", parent, "user", question), self.turn(name, f"u{name}", "assistant", answer)]
        return turns


def _chat(write: _Writer) -> Group:
    """Three turns; prompts end 6 tokens after the grid, at 176 and off it; states inside, at ends, and decoded."""
    return write.chain(130, 40, 3, 20, 61, 5)


def _short(write: _Writer) -> Group:
    """Two turns under a chunk."""
    return write.chain(20, 6, 9, 4)


def _aligned(write: _Writer) -> Group:
    """A prompt of two whole chunks, continued, and asked again with another question: a state at an extend's end."""
    turns = [write.turn("s", None, "system", 122), *write.pairs(("a", "s", 0, 5), ("b", "a", 20, 4))]
    return group(turns, ["a", "b"])


def _twice(write: _Writer) -> Group:
    """Two questions on one long system prompt, which is hit inside the first extend and off its end."""
    turns = [write.turn("s", None, "system", 140), *write.pairs(("a", "s", 40, 3), ("b", "s", 60, 6))]
    return group(turns, ["a", "b"])


def _half(write: _Writer) -> Group:
    """Two questions on one system prompt that is hit at the first of the states inside the extend before."""
    turns = [write.turn("s", None, "system", 70), *write.pairs(("a", "s", 130, 3), ("b", "s", 20, 6))]
    return group(turns, ["a", "b"])


def _rephrased(write: _Writer) -> Group:
    """A question that is asked again with another answer in the history: the end of the first prompt is hit."""
    turns = [*write.pairs(("a", None, 70, 12)), write.turn("b", "ua", "assistant", 9)]
    return group([*turns, *write.pairs(("c", "b", 11, 5))], ["a", "c"])


def _one_token(write: _Writer) -> Group:
    """A prompt of 129 tokens, sent twice: a hit at 128 leaves one token to prefill."""
    plain = write.chain(125, 3)
    return plain.model_copy(update={"requests": plain.requests * 2})


def _beam(write: _Writer) -> Group:
    """A beam search that drops, duplicates and reorders at tokens 7 and 14."""
    turns = [
        write.turn("u", None, "user", 62),
        *write.answers("u", ["p", "q", "r", "s", "t", "w"], [20, 7, 9, 9, 24, 18], [20, 0, 7, 0, 7, 14]),
    ]
    forks = [
        Fork(kind="fork", turn=name, source="p", offset=offset)
        for name, offset in (("q", 0), ("r", 7), ("s", 0), ("t", 7), ("w", 14))
    ]
    return with_events(group(turns, ["p", "q", "r", "s", "t", "w"]), *forks)


def _preempted(write: _Writer) -> Group:
    """Taken off in the prompt and in the answer, computed again and swapped, others in between."""
    turns = write.pairs(("p", None, 100, 9), ("q", None, 70, 9), ("r", None, 66, 9), ("s", None, 30, 9))
    events = [
        Preemption(kind="preemption", turn="p", after=65, resume="recompute"),
        Preemption(kind="preemption", turn="q", after=78, resume="recompute"),
        Preemption(kind="preemption", turn="r", after=72, resume="swap"),
    ]
    return with_events(group(turns, ["p", "q", "r", "s"]), *events)


def _mates(write: _Writer) -> Group:
    """Three prompts of unlike lengths in one pass, off the grid; each goes on after it, from the state inside its extend."""
    turns = write.pairs(("a", None, 80, 4), ("b", None, 141, 9), ("c", None, 66, 6))
    turns += write.pairs(("d", "ua", 30, 4), ("e", "ub", 12, 4), ("f", "uc", 21, 4))
    mates = BatchMates(kind="batch", turn="a", mates=("b", "c"))
    return with_events(group(turns, ["a", "b", "c", "d", "e", "f"]), mates)


def _tiers(write: _Writer) -> Group:
    """States go to the host and come back, once with the load aborted; other requests take the slots."""
    turns = write.pairs(("a", None, 140, 10), ("v", "a", 20, 6), ("w", "v", 40, 6), ("x", None, 70, 6))
    events = (
        Offload(kind="offload", turn="a"),
        Offload(kind="offload", turn="v"),
        AbortedLoad(kind="aborted-load", turn="w"),
    )
    return with_events(group(turns, ["a", "x", "v", "x", "w"]), *events)


def _long_decode(write: _Writer) -> Group:
    """An answer over two points of a track grid of 64, continued."""
    return write.chain(40, 100, 9, 3)


def _strangers(write: _Writer) -> Group:
    """Two conversations one after the other in one pool: what the first left behind is another's."""
    turns = write.pairs(("a", None, 90, 6), ("b", None, 70, 5), ("c", "a", 12, 4), ("d", "b", 9, 4))
    return group(turns, ["a", "b", "c", "d"])


def _brief(write: _Writer) -> Group:
    """The same with prompts of a few tokens."""
    turns = write.pairs(("a", None, 12, 4), ("b", None, 9, 4), ("d", "b", 5, 4))
    return group(turns, ["a", "b", "d"])


def _windows(write: _Writer, counts: Mapping[str, Counts], *lengths: int) -> Group:
    return windowed(write.chain(*lengths), counts)


EACH_COUNT: Counts = [(3, 0), (3, 1), (3, 2), (3, 3), (0, 0), (1, 0), (1, 1), (5, 4), (5, 0), (5, 5)]
"""0 to k accepted, two rejected windows in a row, and a step without drafts."""


def _speculative(write: _Writer) -> Group:
    """Every accepted count, and a turn that goes on from the state after the answer."""
    return _windows(write, {"a0": EACH_COUNT}, 70, 40, 20, 9)


def _accepted(write: _Writer) -> Group:
    """Every draft is accepted."""
    return _windows(write, {"a0": [(3, 3)] * 5}, 70, 22, 20, 4)


def _drafted(write: _Writer) -> Group:
    """Drafts on each step, some rejected: no step without."""
    return _windows(write, {"a0": [(3, 1)] * 12, "a1": [(3, 2)] * 2}, 70, 24, 20, 7)


def _window_mates(write: _Writer) -> Group:
    """Two answers decoded in one pass with unlike accepted counts, then a turn on each."""
    turns = write.pairs(("p", None, 20, 20), ("q", None, 31, 20), ("r", "p", 8, 4), ("s", "q", 11, 4))
    plain = group(turns, ["p", "q", "r", "s"])
    return windowed(plain, {"p": [(3, 0)] * 20, "q": [(3, 2)] * 6}, BatchMates(kind="batch", turn="p", mates=("q",)))


WORKLOADS: Mapping[str, Callable[[_Writer], Group]] = {
    "chat": _chat,
    "short": _short,
    "aligned": _aligned,
    "twice": _twice,
    "half": _half,
    "rephrased": _rephrased,
    "one-token": _one_token,
    "beam": _beam,
    "preempted": _preempted,
    "mates": _mates,
    "tiers": _tiers,
    "long-decode": _long_decode,
    "strangers": _strangers,
    "brief": _brief,
    "speculative": _speculative,
    "accepted": _accepted,
    "drafted": _drafted,
    "window-mates": _window_mates,
}


def workload(name: str, seed: int) -> Group:
    """The group of that name with the letters of that seed."""
    return WORKLOADS[name](_Writer(seed)).model_copy(update={"group": name})
