"""Rows about slots: copies for each reason, the pool's rules, forks and convolution windows, from plans that are played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Copy, CopyReason
from replaycheck.schema.arm import Compiler, PoolDtype
from replaycheck.schema.policy import Policy
from replaycheck.schema.trace import Fork, Group

from .found import Check, Found, broken, exact
from .groups import GROUPS, shared_answers, turn, with_events
from .groups import group as make_group
from .play import Played, play, total
from .policies import PLAYED, arm_of
from .subject import Subject

__all__ = ["checks"]

SAME = "same bytes"
RULES = {
    "copy-restore": ("copies", SAME, ("restore",), "a stored state copied into a request's slot"),
    "copy-fork": ("copies", SAME, ("fork",), "a live state copied for a branch"),
    "copy-block": ("copies", SAME, ("block",), "a running state that goes on in the next block"),
    "copy-store": ("copies", SAME, ("store",), "a live state copied to be stored"),
    "copy-tier": ("copies", SAME, ("tier",), "swaps and stored states to the host and back"),
    "pool-null": ("pool", "the null slot is never written", ("null",), "the null slot after each step"),
    "pool-poison": ("pool", "a freed slot is filled with NaN", ("poison",), "freed slots"),
    "pool-freed": ("pool", "nothing reads a freed or unwritten slot", ("freed",), "reads of slots, and of freed ones"),
    "pool-clear": ("pool", "a reused slot is cleared to zero", ("clear", "read-empty"), "reused slots after a clear"),
    "pool-stored": ("pool", "a stored state keeps its bytes", ("stored", "others"), "stored slots after each step"),
    "pool-label": ("pool", "a slot holds the state of its label", ("label", "read"), "stores, and rows that continue"),
    "fork-source": ("forks", "the source's bytes are constant", ("source",), "sources at a copy and when they go on"),
    "conv-slot": ("convolution", "its own last inputs, byte for byte", ("conv",), "windows after stores and copies"),
}
"""By row: part, requirement, rules of the play, and what was looked at."""


def checks() -> list[Check]:
    """The rows of the table that this module looks at."""
    rows = [Check(name, part, required, _look(name)) for name, (part, required, _, _) in RULES.items()]
    return [*rows, Check("fork-bytes", "forks", "constant in the context's length", _bytes_per_fork)]


def _look(name: str) -> Callable[[Subject], Found]:
    _, _, rules, what = RULES[name]

    def look(subject: Subject) -> Found:
        seen, problems = _played(subject)
        count = sum(seen[rule] for rule in rules)
        wrong = next((problems[rule] for rule in rules if problems[rule]), "")
        if wrong:
            return broken(f"at least one of {count:,} looks isn't so", wrong, looked_at=count)
        return exact(f"{count:,} looks at {what}", looked_at=count)

    return look


def _played(subject: Subject) -> tuple[Counter[str], dict[str, str]]:
    return subject.once("played", lambda: total(_games(subject)))


def _games(subject: Subject) -> list[tuple[str, Played]]:
    """Short groups first, so that the first problem is a small one."""
    games = []
    cases = sorted(product(GROUPS.items(), PLAYED, PoolDtype), key=lambda case: _size(case[0][1]))
    for (name, group), policy, pool in cases:
        schedule = subject.spoil(compile_schedule(group, arm_of(Compiler.WARM, policy, pool=pool)))
        played = play(schedule, subject.pool, subject.device, _kind(group, policy))
        games.append((f"group {name}, {policy.slug}, {pool}", played))
    return games


def _size(group: Group) -> int:
    return sum(len(turn.tokens) for trace in group.traces for turn in trace.turns)


def _kind(group: Group, policy: Policy) -> str:
    """What a FORK copy is for: only a group with forks branches, and only blocks make a running state move."""
    if policy.cache == "vllm-none":
        return "fork"
    return "block" if policy.cache == "vllm-align" else "store"


def _bytes_per_fork(subject: Subject) -> Found:
    """Copies that two forks make after prompts of very unlike lengths, and the bytes of a slot of the tiny model."""
    found: dict[int, int] = {}
    state = subject.network.empty_state()
    slot = state.temporal.numel() * 4 + state.conv.numel() * 2
    for prompt in (1, 65, 1000, 8000):
        turns = [turn("u", None, "user", prompt), *shared_answers("u", ["p", "q"], [9, 9], [9, 5])]
        forked = with_events(make_group(turns, ["p", "q"]), Fork(kind="fork", turn="q", source="p", offset=5))
        schedule = subject.spoil(compile_schedule(forked, arm_of(Compiler.WARM, PLAYED[3])))
        copies = [step for step in schedule.steps if isinstance(step, Copy) and step.reason is CopyReason.FORK]
        found[prompt] = slot * len(copies)
    sizes = set(found.values())
    if len(sizes) == 1 and sizes == {slot}:
        return exact(f"one copy of {slot:,} bytes after 1 to 8,000 tokens (tiny model, fp32 pool)", bytes=slot)
    prompt = min(found, key=lambda each: (found[each] == slot, each))
    return broken("a fork isn't one copy of a slot", f"prompt of {prompt} tokens: {found[prompt]:,} bytes")
