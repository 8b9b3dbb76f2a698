"""Mutants that may live, each with its argument, in ``survivors.toml``.

An entry names a module, the function ("" for what runs at import), changes as ``before → after``, and why no test should
tell them from the original: the same answer for every input (equivalent), or another one that nobody was promised.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.changes import Mutant, mutants

SURVIVORS = "tests/mutation/survivors.toml"


@dataclass(frozen=True)
class Argued:
    """The arguments, by module, function and change."""

    whys: dict[tuple[str, str, str], str]

    @staticmethod
    def load(root: Path) -> Argued:
        entries = tomllib.loads((root / SURVIVORS).read_text())["argued"]
        return Argued({(e["module"], e["within"], change): e["why"] for e in entries for change in e["changes"]})

    def __contains__(self, mutant: Mutant) -> bool:
        return key(mutant) in self.whys

    def stale(self, root: Path) -> list[str]:
        """Entries whose source isn't there any more."""
        modules = {module for module, _, _ in self.whys if (root / module).exists()}
        known = {key(mutant) for module in modules for mutant in mutants(root, module)}
        return [" ".join(each) for each in self.whys if each not in known]


def key(mutant: Mutant) -> tuple[str, str, str]:
    """How an entry names a mutant. The same change twice in a function is one entry."""
    return mutant.module, mutant.within, f"{mutant.before} → {mutant.after}"
