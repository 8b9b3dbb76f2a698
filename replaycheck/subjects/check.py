"""``subject check``: a tiny schedule on somebody's subject, and what is missing, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from replaycheck.compare.record import ArmRecording, ScoredTurn
from replaycheck.errors import ReplayCheckError
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Answers, Arm, Compiler, Kernel, PoolDtype
from replaycheck.schema.policy import CheckpointPolicy, Policy
from replaycheck.schema.trace import Group
from replaycheck.subjects.protocol import COLD_AND_WARM, Description, Said, Subject, Translates
from replaycheck.traces.vocabulary import NAME, turn_tokens

__all__ = ["Line", "check_subject", "tiny_group"]

WORDS = 24
"""User turns of about so many words: two turns are longer than two checkpoints of 64 tokens."""


@dataclass(frozen=True)
class Line:
    """One check: what was asked, what came out."""

    what: str
    good: bool
    said: str

    def plain(self) -> dict[str, object]:
        return asdict(self)


def check_subject(subject: Subject) -> list[Line]:
    """Every check; those that need what an earlier one missed are left out.

    Raises:
        EngineEnvironmentError: the subject can't be reached.
    """
    described = subject.describe()
    lines = list(_description(described))
    if all(line.good for line in lines):
        lines += _played(subject, described)
    return lines


def _description(found: Description) -> Iterator[Line]:
    kind = isinstance(found, Description)
    yield Line("describe()", kind, f"{found.name}" if kind else f"gave a {type(found).__name__}, not a Description")
    if not kind:
        return
    yield Line("name and digest", bool(found.name and found.digest), f"{found.name!r}, {found.digest!r}")
    yield Line("vocabulary", found.vocabulary > 1, f"{found.vocabulary} ids")
    missing = COLD_AND_WARM - found.compilers
    yield Line(
        "arms", not missing, f"misses {', '.join(sorted(missing))}" if missing else ", ".join(sorted(found.compilers))
    )


def _played(subject: Subject, found: Description) -> Iterator[Line]:
    group, bos = tiny_group(), None
    if isinstance(subject, Translates):
        theirs = subject.translate(group)
        group, bos = theirs.group, theirs.bos
        yield Line("translate()", True, theirs.how)
    policy = found.policy or CheckpointPolicy(every=64)
    wanted = [_schedule(group, policy, compiler, bos) for compiler in (Compiler.COLD, Compiler.COLD, Compiler.WARM)]
    if found.policy is None and max(max(plan.tokens) for plan in wanted[0].requests) >= found.vocabulary:
        yield Line("token ids", False, f"the traces' ids go beyond its {found.vocabulary}; give it translate()")
        return
    try:
        # One call an arm: a subject may not count on the others.
        recorded = [subject.replay([schedule])[0] for schedule in wanted]
    except (ReplayCheckError, NotImplementedError, IndexError, TypeError, AttributeError) as error:
        yield Line("replay()", False, f"{type(error).__name__}: {error}")
        return
    yield from _recorded(wanted, recorded, found)


def _recorded(wanted: Sequence[Schedule], recorded: Sequence[ArmRecording], found: Description) -> Iterator[Line]:
    cold, again, warm = recorded
    good = all(isinstance(each, ArmRecording) for each in recorded)
    yield Line("replay()", good, "an ArmRecording a schedule" if good else "gave something else than ArmRecordings")
    if not good:
        return
    named = [each.arm == schedule.arm.name for each, schedule in zip(recorded, wanted, strict=True)]
    yield Line(
        "arm", all(named), "each recording has its schedule's arm" if all(named) else f"{cold.arm!r} is another arm"
    )
    wrong = next((text for each in recorded for text in _turns(wanted[0], each, found)), "")
    yield Line("turns", not wrong, wrong or f"{len(cold.turns)} turns, positions and tokens as asked")
    if wrong:
        return
    yield _same(cold, again, found)
    yield _hits(warm, found)
    yield Line(
        "cold", not cold.proven_hits, "no hit" if not cold.proven_hits else f"{cold.proven_hits} hits where none may be"
    )


def _turns(schedule: Schedule, recording: ArmRecording, found: Description) -> Iterator[str]:
    plans = {(plan.trace, plan.branch, plan.turn): plan for plan in schedule.requests}
    if {turn.key for turn in recording.turns} != set(plans):
        yield f"{recording.arm}: turns {sorted(turn.key for turn in recording.turns)}, asked were {sorted(plans)}"
        return
    for turn in recording.turns:
        plan, n = plans[turn.key], len(turn.positions)
        wanted = np.arange(plan.prompt, plan.prompt + n)
        if not n or not np.array_equal(turn.positions, wanted):
            yield f"{recording.arm}, turn {turn.key}: positions must run from {plan.prompt} on"
        elif not np.array_equal(turn.tokens, plan.tokens[plan.prompt : plan.prompt + n]):
            yield f"{recording.arm}, turn {turn.key}: the tokens aren't those of the trace"
        elif text := _shape(turn, found):
            yield f"{recording.arm}, turn {turn.key}: {text}"


def _shape(turn: ScoredTurn, found: Description) -> str:
    n = len(turn.positions)
    if found.said is Said.LOGITS:
        if turn.logits.shape != (n, found.vocabulary) or turn.logits.dtype != np.float32:
            return f"logits are {turn.logits.dtype} {turn.logits.shape}, must be float32 {(n, found.vocabulary)}"
        return "" if np.isfinite(turn.logits.max(axis=1)).all() else "logits aren't finite"
    if turn.top is None or len(turn.top) != n:
        return f"it says it gives log-probabilities of the best tokens, so top must hold {n} positions"
    return "every position is missing" if turn.top.missing.all() else ""


def _same(cold: ArmRecording, again: ArmRecording, found: Description) -> Line:
    equal = all(_equal(a, b) for a, b in zip(_sorted(cold), _sorted(again), strict=True))
    if equal:
        return Line("the same twice", True, "two cold runs have the same bits")
    good = found.deterministic is not True
    return Line(
        "the same twice", good, "two cold runs differ" + ("" if good else ", though it says it is deterministic")
    )


def _sorted(recording: ArmRecording) -> list[ScoredTurn]:
    return sorted(recording.turns, key=lambda turn: turn.key)


def _equal(a: ScoredTurn, b: ScoredTurn) -> bool:
    sides: list[Callable[[ScoredTurn], object]] = [lambda turn: turn.logits.tobytes()]
    if a.top is not None:
        sides = [lambda turn: turn.top.packed().tobytes() if turn.top else b""]
    return all(side(a) == side(b) for side in sides)


def _hits(warm: ArmRecording, found: Description) -> Line:
    if warm.proven_hits:
        return Line("hits", True, f"{warm.proven_hits} proven, {warm.expected_hits} expected")
    if found.policy is not None:
        block = getattr(found.policy, "block", 1)
        return Line(
            "hits", True, f"none on this tiny trace, whose prompts are short for blocks of {block}; run a longer one"
        )
    return Line(
        "hits", False, f"none was proven, {warm.expected_hits} were expected; without one a run is vacuous (exit 5)"
    )


def _schedule(group: Group, policy: Policy, compiler: Compiler, bos: int | None) -> Schedule:
    arm = Arm(
        compiler=compiler,
        history=Kernel.CHUNK,
        tail=Kernel.CHUNK,
        answers=Answers.PREFILLED,
        pool=PoolDtype.FP32,
        policy=policy,
        recipe="engine",
    )
    made = compile_schedule(group, arm)
    return made if bos is None else made.begun_with(bos)


def tiny_group() -> Group:
    """One conversation of three turns."""
    text = " ".join(["river", "stone", "lamp"] * (WORDS // 3))
    turns, parent = [], None
    for number in range(3):
        for role, name, said in (("user", f"u{number}", f"{number} {text}"), ("assistant", f"a{number}", "yes, it is")):
            turns.append({"id": name, "parent": parent, "role": role, "text": said, "tokens": turn_tokens(role, said)})
            parent = name
    asked = [{"trace": "tiny", "turn": f"a{number}"} for number in range(3)]
    return Group.model_validate(
        {
            "schema": "replaycheck.trace/1",
            "group": "tiny",
            "vocabulary": NAME,
            "traces": [{"id": "tiny", "turns": turns}],
            "requests": asked,
        }
    )
