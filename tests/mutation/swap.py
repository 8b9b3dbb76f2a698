"""A mutant in a process that has imported everything already: in its functions, or by importing the package again.

A function keeps its identity and gets other code, so every name that it was imported under changes with it. What runs at
import (constants, tables, defaults) was copied by then; for that the package and the tests are imported once more.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.changes import Mutant, mutated

OURS = ("replaycheck", "tests")
"""Imported again for a mutant at import. The kernels know nothing of replaycheck, and may be registered once only."""


class Functions:
    """The functions of a package that live in this process, by file, qualified name and first line."""

    def __init__(self, folder: Path) -> None:
        self.found: dict[tuple[str, str, int], list[FunctionType]] = {}
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{folder}/"):
                self.found.setdefault(_key(each.__code__), []).append(each)

    def swap(self, root: Path, mutant: Mutant) -> bool:
        """Give the mutant's function its code; False if no such function lives."""
        path = root / mutant.module
        codes = _codes(compile(mutated(path.read_text(), mutant.place), str(path), "exec", dont_inherit=True))
        mine = [code for code in codes if code.co_qualname == mutant.within]
        living = [(each, code) for code in mine for each in self.found.get(_key(code), ())]
        for each, code in living:
            each.__code__ = code
        return bool(living)


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, place: int) -> None:
        super().__init__(name, path)
        self.place = place

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        return compile(mutated(text, self.place), self.path, "exec", dont_inherit=True)


class Finder:
    """Serves the mutated module to the next import."""

    def __init__(self, root: Path, mutant: Mutant) -> None:
        self.path, self.place = root / mutant.module, mutant.place
        self.name = ".".join(Path(mutant.module).with_suffix("").parts).removesuffix(".__init__")

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return spec_from_file_location(name, self.path, loader=_Loader(name, str(self.path), self.place))


def forget(root: Path, mutant: Mutant) -> None:
    """Have the package and the tests imported again, with the mutant; libraries stay."""
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        # Python imports this process's own driver by these names, too; what runs keeps what it has.
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(root, mutant))
