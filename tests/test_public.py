"""The public interface: what pages and examples import is on the list, and names that go say so first."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from replaycheck import __version__
from replaycheck.deprecation import Deprecated, still_there
from replaycheck.public import DEPRECATED, PUBLIC

ROOT = Path(__file__).parent.parent
NAMES = {(surface.module, name) for surface in PUBLIC for name in surface.names}
# Pages show what users import. docs/findings.md is no such page: its programs are of the checkout that found something.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "findings.md"),
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted((ROOT / "reports").glob("*.py")),
]


def programs(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [text] if page.suffix == ".py" else re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def imported(program: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("replaycheck"):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_imports_is_public(page: Path) -> None:
    assert [name for program in programs(page) for name in imported(program) if name not in NAMES] == []


def members(thing: object) -> Iterator[tuple[str, object]]:
    """A public function, or a public class with its public methods and properties."""
    if inspect.isfunction(thing):
        yield thing.__name__, thing
    if inspect.isclass(thing):
        for name, value in vars(thing).items():
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if not name.startswith("_") and inspect.isfunction(function):
                yield f"{thing.__name__}.{name}", function


@pytest.mark.parametrize(("module", "name"), sorted(NAMES))
def test_public_functions_and_methods_say_what_they_do_and_raise(module: str, name: str) -> None:
    for called, function in members(getattr(importlib.import_module(module), name)):
        said = inspect.getdoc(function)
        assert said, called
        raises = any(
            isinstance(node, ast.Raise) for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
        )
        assert "Raises" in said or not raises, called


def test_deprecated_names_work_until_their_version_and_say_so() -> None:
    for old in DEPRECATED:
        with pytest.warns(DeprecationWarning, match=re.escape(old.message)):
            getattr(importlib.import_module(old.module), old.name)
        assert version(__version__) < version(old.until), f"{old.name} was to be gone by {old.until}"


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_a_name_that_moved_warns_with_its_version_and_gives_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = ModuleType("shop")
    shop.__getattr__ = still_there(Deprecated("shop", "old", "replaycheck.errors.UsageError", "0.3"))  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "shop", shop)
    said = "shop.old is deprecated and goes in version 0.3; use replaycheck.errors.UsageError"
    with pytest.warns(DeprecationWarning, match=said):
        from shop import old  # type: ignore[import-not-found]
    assert old.__name__ == "UsageError"
    with pytest.raises(AttributeError, match="no name 'other' here"):
        _ = shop.other
