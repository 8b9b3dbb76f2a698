"""The tree as a stranger meets it: each folder and module says what it is for, and nothing is too long to read."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (ROOT / "replaycheck", ROOT / "kernels" / "replaycheck_kernels")
TEXTS = {path: path.read_text(encoding="utf-8") for package in PACKAGES for path in sorted(package.rglob("*.py"))}
TREES = {path: ast.parse(text) for path, text in TEXTS.items()}
# Folders beside the packages that hold something to use. Pages of docs/ are one site, whose index says what is where.
BESIDE = ("examples", "models", "reports", "reports/samples", "traces")

LINES_A_MODULE = 400
LINES_A_FUNCTION = 40
"""Of code: neither signature nor docstring. A kernel for a GPU is one function, so kernels of Triton may be longer."""
SHORTEST = 40
"""Letters of a module's docstring: with fewer it only says the file's name again."""

ELSEWHERE = {"replaycheck/testing/__init__.py"}
"""Examples that another test runs, since they probe a whole kernel."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def only_its_name(path: Path, said: str) -> bool:
    name = path.parent.name if path.stem == "__init__" else path.stem
    return set(re.findall(r"[a-z]{3,}", said.lower())) <= set(name.lower().split("_"))


def test_modules_say_their_idea() -> None:
    said = {path: ast.get_docstring(tree) or "" for path, tree in TREES.items()}
    assert [named(path) for path, text in said.items() if len(text) < SHORTEST or only_its_name(path, text)] == []


def test_modules_are_short_enough_to_be_read() -> None:
    assert [named(path) for path, text in TEXTS.items() if text.count("\n") > LINES_A_MODULE] == []


def test_folders_say_what_they_are_for() -> None:
    files = (path for package in PACKAGES for path in package.rglob("*.*") if "__pycache__" not in path.parts)
    within = {path.parent for path in files}
    silent = [each for each in within if each / "__init__.py" not in TEXTS and not (each / "README.md").exists()]
    silent += [ROOT / folder for folder in BESIDE if not (ROOT / folder / "README.md").exists()]
    assert sorted(map(named, silent)) == []


def test_a_package_that_lists_modules_lists_all_of_them() -> None:
    """A table of four or more is meant to be whole: a new module gets its line."""
    left_out = []
    for path in (path for path in TREES if path.name == "__init__.py"):
        words = set(re.findall(r"\w+", ast.get_docstring(TREES[path]) or ""))
        modules = {each.stem for each in path.parent.glob("*.py")} - {"__init__", "__main__"}
        if len(modules & words) >= 4:
            left_out += [f"{named(path.parent)}/{name}" for name in sorted(modules - words)]
    assert left_out == []


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function with its lines of code; kernels of Triton are left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and "triton.jit" not in map(ast.unparse, node.decorator_list):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                yield node.name, (node.end_lineno or 0) - body[0].lineno + 1


def test_functions_can_be_read_at_a_glance() -> None:
    long = {
        named(path): {name for name, lines in functions(tree) if lines > LINES_A_FUNCTION}
        for path, tree in TREES.items()
    }
    assert {path: names for path, names in long.items() if names} == {}


@pytest.mark.filterwarnings("error")
def test_examples_in_docstrings_run() -> None:
    failed = {}
    for path in (path for path, text in TEXTS.items() if ">>> " in text and named(path) not in ELSEWHERE):
        base = ROOT if path.is_relative_to(PACKAGES[0]) else PACKAGES[1].parent
        module = importlib.import_module(
            ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        )
        failed[named(path)] = doctest.testmod(module).failed
    assert len(failed) > 30
    assert [path for path, count in failed.items() if count] == []


def test_pages_that_the_code_points_to_are_there() -> None:
    """``(docs/statistics.md, Where it begins)`` is a page, and a heading or the bold title of a paragraph in it."""
    missing = []
    for path, text in TEXTS.items():
        for page, title in re.findall(r"(docs/[\w/-]+\.md)(?:, ([A-Z][\w, -]+))?", text):
            found = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
            if not re.search(rf"^(#+ |\*\*){re.escape(title)}", found, re.MULTILINE):
                missing.append(f"{named(path)}: {page} {title}")
    assert missing == []
