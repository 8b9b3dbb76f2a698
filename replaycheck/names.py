"""A name that isn't known: which known ones the user may have meant, and where the others are listed.

Every message about a misspelt name, of a verb, an option, a preset, a fault or a key of a file, takes its words from here.
"""

from __future__ import annotations

from collections.abc import Iterable

from replaycheck.errors import choices

__all__ = ["MOST", "all_of", "did_you_mean", "nearest"]

MOST = 4
"""Names that are suggested: what an eye takes in at once."""

ALIKE = 0.6
"""Least similarity (twice the characters in common, over both lengths): ``rnu`` and ``run`` have 0.67, of 1."""

AS_GOOD = 0.1
"""How much less alike than the best a name may be: ``--presett`` is ``--preset`` (0.94) and not ``--resume`` (0.71)."""

SPELT = 0.8
"""How alike a name must be that stands beside those that hold the given one: ``pol`` is ``policy`` or ``pool`` (0.86)."""

SHORTEST = 2
"""Characters from which on a name that holds the given one is suggested: one letter is in most names."""

MANY = 24
"""Names up to which an error lists them all, in three lines of a terminal: beyond, they hide what is said."""


def nearest(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names most like ``given``, best first, at most :data:`MOST`; case and ``_`` for ``-`` don't matter.

    >>> nearest("RC31", ["RC101", "RC310", "RC313"])
    ('RC310', 'RC313')
    >>> nearest("pol", ["policy", "pool", "tail"])
    ('policy', 'pool')
    >>> nearest("nothing like it", ["run", "gate"])
    ()
    """
    from difflib import SequenceMatcher  # 5 ms, and `--help` has no misspelt names

    asked = _plain(given)
    likeness = {name: SequenceMatcher(None, asked, _plain(name)).ratio() for name in known}
    holding = [name for name in likeness if len(asked) >= SHORTEST and asked in _plain(name)]
    holding.sort(key=lambda name: not _plain(name).startswith(asked))
    least = SPELT if holding else max(ALIKE, max(likeness.values(), default=0.0) - AS_GOOD)
    alike = [name for name, ratio in likeness.items() if ratio >= least and name not in holding]
    return tuple([*holding, *sorted(alike, key=lambda name: -likeness[name])][:MOST])


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """``" (did you mean 'run'?)"``, to put behind what isn't known; nothing if no known name is like it, or each is.

    >>> did_you_mean("rnu", ["run", "gate"])
    " (did you mean 'run'?)"
    """
    names = tuple(known)
    found = nearest(given, names)
    return f" (did you mean {choices(found)}?)" if found and len(found) < max(2, len(names)) else ""


def all_of(known: Iterable[str], listed_by: str) -> str:
    """The known names, or, of many, the command that lists them.

    >>> all_of(["run", "gate"], "replaycheck --help")
    "choose 'run' or 'gate'"
    """
    names = tuple(known)
    return f"choose {choices(names)}" if len(names) <= MANY else f"`{listed_by}` lists all {len(names)}"


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
