"""The one server subject: an engine's adapter, played over groups, described and guarded."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from replaycheck.compare.record import ArmRecording
from replaycheck.schedule.steps import Schedule
from replaycheck.schema.arm import Compiler
from replaycheck.schema.gaps import StateDtype
from replaycheck.schema.policy import ServerPolicy
from replaycheck.schema.trace import Group
from replaycheck.subjects.protocol import Description, Said, Translated

from .engine import Engine, Facts
from .http import ServerFault
from .play import Play
from .settings import ServerSettings
from .words import Words, translate

__all__ = ["ServerSubject"]

#: Warm goes before split, whose cuts are those of warm's hits.
ORDER = (Compiler.COLD, Compiler.WARM, Compiler.SPLIT)


class ServerSubject:
    """An engine as a subject.

    Args:
        words: how traces become the model's token ids, or None: as they are.
    """

    def __init__(self, engine: Engine, settings: ServerSettings, words: Words | None = None) -> None:
        self._engine = engine
        self._settings = settings
        self._words = words
        self._facts = engine.facts()

    def describe(self) -> Description:
        """Who it is, from what the engine says about itself."""
        facts = self._facts
        return Description(
            name=f"{facts.name} {facts.version}",
            digest=_digest(facts, self._settings),
            vocabulary=facts.vocabulary,
            versions={facts.name: facts.version, **facts.versions},
            said=Said.TOP,
            semantics=facts.semantics,
            forced=facts.forced,
            compilers=frozenset(ORDER) if facts.cuts else frozenset(ORDER[:2]),
            policy=facts.policy or ServerPolicy(cache="server"),
            pool=facts.pool,
            asked=facts.asked,
            wholes=facts.wholes,
            pinned=facts.pinned,
            batches=facts.together and self._settings.batch > 1,
            budget=self._settings.budget if facts.cuts else 0,
            deterministic=facts.deterministic,
            not_seen=(*facts.not_seen, *_not_split(facts), *_not_asked(facts)),
        )

    def translate(self, group: Group) -> Translated:
        """``group`` in the ids of the engine's model."""
        return translate(group, self._facts.vocabulary, self._words)

    def replay(self, schedules: Sequence[Schedule]) -> list[ArmRecording]:
        """Group by group. Another version in mid-run is an error: what was recorded is of two engines."""
        plays: dict[str, Play] = {}
        found: dict[int, ArmRecording] = {}
        for number in sorted(range(len(schedules)), key=lambda each: ORDER.index(schedules[each].arm.compiler)):
            group = schedules[number].group
            play = plays.setdefault(group, Play(self._engine, self._facts, self._settings))
            found[number] = play.arm(schedules[number])
        self._same_as_before()
        return [found[number] for number in range(len(schedules))]

    def _same_as_before(self) -> None:
        now, before = self._engine.facts(), self._facts
        for what, old, new in (
            ("version", before.version, now.version),
            ("model", before.model, now.model),
            ("settings", dict(before.settings), dict(now.settings)),
        ):
            if old != new:
                raise ServerFault(
                    f"{before.name}: its {what} changed in mid-run, from {old!r} to {new!r}; what was replayed since the "
                    "last stored group is dropped; start a new run on one engine"
                )


def _digest(facts: Facts, settings: ServerSettings) -> str:
    """Of everything that decides results; the address isn't part of it."""
    words = [facts.name, facts.version, facts.model, str(facts.vocabulary), str(sorted(facts.versions.items()))]
    words += [str(sorted(facts.settings.items())), str(settings.score), str(settings.top), str(settings.batch)]
    return blake2b("\n".join(words).encode(), digest_size=16).hexdigest()


def _not_split(facts: Facts) -> tuple[str, ...]:
    if facts.cuts:
        return ()
    if facts.pinned:
        return (
            "cold is cut at every cache block, as declared with grid=block, so it is its own split arm: cold against warm "
            "is the state effect alone",
        )
    if facts.no_split:
        return (f"there is no split arm: {facts.no_split}",)
    return (
        "it can't be made to cut its prefill where a hit cuts it, so there is no split arm: the grid effect (legitimate) "
        "and the state effect aren't told apart; serve it with a prefill chunk of one cache block and declare grid=block",
    )


def _not_asked(facts: Facts) -> tuple[str, ...]:
    """Said once: one that is seen not to be in use is a finding (RC906) instead."""
    if facts.pool is not None:
        return ()
    if facts.asked is None:
        return ("the dtype of the recurrent states",)
    return (str(StateDtype(asked=facts.asked, in_use=None)),)
