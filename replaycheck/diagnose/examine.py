"""From a failing case to symptoms: run it again with recorders, look at the first wrong step, then take things out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from replaycheck.errors import ReplayCheckError

from .again import Case, Replayed, replay
from .at_state import of_state
from .at_step import lost_hits, null_slot, of_step, wrong_by_kind
from .fading import followed
from .locate import FirstWrong
from .switches import alone, simpler
from .symptoms import Symptoms
from .trail import Key, Op, Seen

__all__ = ["examine"]


def examine(case: Case) -> Symptoms:
    """All symptoms of the case's first wrong step.

    Raises:
        UsageError: the case can't be compiled.
    """
    first = replay(case)
    wrong = first.wrong
    facts = Symptoms(
        case.candidate.pool,
        wrong,
        first.refused,
        kinds=wrong_by_kind(first),
        null_slot=null_slot(first.candidate.schedule),
        lost_hits=lost_hits(first),
        ranks=case.candidate.tensor_parallel,
    )
    if wrong is None:
        return _needs(case, facts) if first.refused or facts.lost_hits else facts
    after = followed(first, wrong)
    second = replay(case, _around(wrong, after))
    again = second.wrong
    if again is None or again.key != wrong.key:
        return replace(facts, repeats=False)
    looked = _look(case, facts, again, second)
    return _needs(case, _past_blank(case, looked, first) or looked)


def _look(case: Case, facts: Symptoms, wrong: FirstWrong, found: Replayed) -> Symptoms:
    """The facts of one wrong step, whose states ``found`` has kept."""
    facts = of_step(replace(facts, wrong=wrong), found)
    return of_state(case, facts, found) if facts.recurrent or facts.conv else facts


def _past_blank(case: Case, blank: Symptoms, found: Replayed) -> Symptoms | None:
    """The next wrong state that isn't blank, if it says which tokens it holds.

    A state of no tokens is zero wherever it comes from, and a slot may be written after it was given its name.
    """
    if not blank.blank or (blank.blank == "zero" and blank.op not in (Op.COMMIT, Op.SNAPSHOT)):
        return None
    steps = (Op.COMMIT, Op.COPY, Op.SNAPSHOT, Op.LOAD)
    wrong = found.wrong_but(lambda seen: seen.key.op not in steps or _empty(seen) or seen.key.again > 0)
    if wrong is None or not wrong.places or wrong.reference is None:
        return None
    second = replay(case, _around(wrong))
    again = second.wrong_but(lambda seen: seen.key != wrong.key)
    facts = (
        _look(case, replace(blank, blank="", holds=None, written_late=blank.blank == "nan"), again, second)
        if again
        else None
    )
    return facts if facts and facts.holds and facts.holds.position != facts.meant else None


def _empty(seen: Seen) -> bool:
    """All heads alike: zero, or poison."""
    return len(np.unique(seen.temporal)) == 1


def _around(wrong: FirstWrong, after: frozenset[Key] = frozenset()) -> Callable[[Key], bool]:
    """The wrong step, what its row loaded, whatever has its request and position or its name, and the steps ``after``."""
    row, name = wrong.step.row, wrong.key.name
    restored = row.restored if row else None

    def keep(key: Key) -> bool:
        if key.op is Op.LOGITS:
            return False
        mine = key.request == wrong.key.request and key.position in (wrong.key.position, row.a if row else -1)
        return mine or key in after or (bool(key.name) and key.name in (name, restored))

    return keep


def _needs(case: Case, facts: Symptoms) -> Symptoms:
    """What the failure needs to happen."""
    tried = {switch: _fails(simple) for switch, simple in simpler(case)}
    single = alone(case, facts.wrong.key.request) if facts.wrong else None
    return replace(
        facts,
        vanishes=frozenset(switch for switch, fails in tried.items() if fails is False),
        stays=frozenset(switch for switch, fails in tried.items() if fails),
        alone=_fails(single) if single else None,
    )


def _fails(case: Case) -> bool | None:
    """Whether a case fails; None if it can't be run."""
    try:
        found = replay(case)
    except ReplayCheckError:
        return None
    return bool(found.wrong or found.refused or lost_hits(found))
