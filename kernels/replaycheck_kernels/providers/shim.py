"""Import the kernel files of a package without importing the package.

``import sglang.kernels...`` would run the ``__init__`` of every parent and with it the server. Here the parents named in
``bare`` are empty packages that only know their folder, and ``stubs`` stand in for the few names that kernel files take
from the rest of the engine. The loaded modules live in a table of their own: they are in ``sys.modules`` only inside
``active()``, which every call of a kernel enters, so a real ``sglang`` or ``vllm`` in the same process is neither hidden
nor changed. It is not thread-safe, as ``sys.modules`` is one for all threads.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from .provider import MissingPackage


@dataclass(frozen=True)
class Source:
    """Where a provider's kernel files come from.

    Attributes:
        provider: name for messages.
        package: top-level package, e.g. ``fla``.
        distribution: its name on PyPI, e.g. ``fla-core``.
        tested: versions that the adapter was tested with; the last is what a message says to install.
        bare: packages whose ``__init__`` isn't run.
        stubs: {module name: {attribute: value}} in place of parts of the engine.
        wants: {module name: requirement} of packages that single kernels need and that aren't Triton.
    """

    provider: str
    package: str
    distribution: str
    tested: tuple[str, ...]
    bare: tuple[str, ...] = ()
    stubs: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    wants: Mapping[str, str] = field(default_factory=dict)


class KernelModules:
    """The loaded kernel modules of one package.

    Attributes:
        after_load: called with the imported modules after each import; the interpreter's repairs go here.
    """

    after_load: ClassVar[list[Callable[[Mapping[str, ModuleType]], None]]] = []

    def __init__(self, source: Source, path: Path | None = None) -> None:
        """
        Args:
            path: folder that holds the package's folder, e.g. an unpacked wheel; None takes the installed package.

        Raises:
            MissingPackage: the package is in neither place.
        """
        self.source = source
        self.root = _locate(source, path)
        self.version = _version(source, self.root)
        self._table: dict[str, ModuleType] = _placeholders(source, self.root)
        vars(self._table[source.package])["__version__"] = self.version

    def load(self, name: str) -> ModuleType:
        """Import one module of the package, or return it.

        Raises:
            MissingPackage: the module, or a package that it needs, isn't there.
        """
        with self.active():
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError as error:
                raise MissingPackage(self._explain(error)) from error
        for hook in self.after_load:
            hook(self.loaded())
        return module

    @contextmanager
    def active(self) -> Iterator[None]:
        """Put the table into ``sys.modules``; on leaving, take it out with all that was imported meanwhile."""
        hidden = _take(self.source.package)
        sys.modules.update(self._table)
        try:
            yield
        finally:
            self._table = _take(self.source.package)
            sys.modules.update(hidden)

    def within(self, call: Callable[[], object]) -> Callable[[], object]:
        """The call with the modules in place, which compiling their kernels needs."""

        def run() -> object:
            with self.active():
                return call()

        return run

    def loaded(self) -> dict[str, ModuleType]:
        """The modules that were really imported, by name."""
        return {name: module for name, module in self._table.items() if module.__spec__ is not None}

    def _explain(self, error: ModuleNotFoundError) -> str:
        name, package = error.name or "?", self.source.package
        if name.partition(".")[0] == package:
            return f"provider {self.source.provider!r}: {self.root} (version {self.version}) holds no module {name}"
        wanted = self.source.wants.get(name.partition(".")[0])
        if wanted:
            return f"provider {self.source.provider!r} needs {name} for it: pip install {wanted}"
        return f"provider {self.source.provider!r} needs {name}: install {name} (Triton's wheels are for Linux only)"


def _locate(source: Source, path: Path | None) -> Path:
    """Folder of the package itself."""
    how = f"pip install {source.distribution}=={source.tested[-1]}, or give --kernels-path a folder with its files"
    if path is not None:
        if not (path / source.package).is_dir():
            raise MissingPackage(f"provider {source.provider!r}: no folder {source.package!r} in {path}; {how}")
        return path / source.package
    try:
        spec = importlib.util.find_spec(source.package)
    except ValueError:  # something without a spec sits in sys.modules
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackage(f"provider {source.provider!r}: package {source.package!r} isn't installed; {how}")
    return Path(next(iter(spec.submodule_search_locations)))


def _version(source: Source, root: Path) -> str:
    """Version from the metadata beside the package; "" if there is none, as in a partial copy."""
    for found in Distribution.discover(name=source.distribution, path=[str(root.parent)]):
        return found.version
    return ""


def _placeholders(source: Source, root: Path) -> dict[str, ModuleType]:
    """Empty packages for ``bare``, for the parents of stubs and for the top; modules for the stubs."""
    table: dict[str, ModuleType] = {}
    for name in (source.package, *source.bare, *source.stubs):
        parts = name.split(".")
        for depth in range(1, len(parts) + (name not in source.stubs)):
            parent = ".".join(parts[:depth])
            if parent not in table:
                table[parent] = _empty(parent, root)
    for name, attributes in source.stubs.items():
        table[name] = _empty(name, root)
        vars(table[name]).update(attributes)
    for name, module in table.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(table[parent], child, module)
    return table


def _empty(name: str, root: Path) -> ModuleType:
    """A package that knows its folder and nothing else, so that its submodules are found."""
    module = ModuleType(name, "Placeholder: this package's own __init__ isn't run.")
    module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    return module


def _take(package: str) -> dict[str, ModuleType]:
    """Remove a package and all below it from ``sys.modules`` and return them."""
    names = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
    return {name: sys.modules.pop(name) for name in names}
