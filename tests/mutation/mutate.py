"""Mutation testing of a package: change one operator or number at a time in a copy, and see whether its tests notice.

    python tests/mutation/mutate.py replaycheck/stats tests/stats --sample 60 --seed 0

A mutant that no test kills is printed with its place, so that a person can say why it may live or write
the test that is missing. Mutants are drawn without replacement; what runs is a copy, so the checkout isn't touched.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("replaycheck", "kernels", "tests", "traces", "models", "examples", "pyproject.toml")
LIMIT = 180
"""Seconds of one mutant's tests; one that takes longer loops, and counts as killed."""

_COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # fmt: skip
_BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
           ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult}  # fmt: skip
_BOOLEAN = {ast.And: ast.Or, ast.Or: ast.And}


@dataclass(frozen=True)
class Mutant:
    """One change: the module, its line, the text before and after, and the whole new source."""

    module: Path
    line: int
    before: str
    after: str
    source: str


def mutants(module: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its nodes."""
    text = module.read_text()
    for number in range(len(list(_places(ast.parse(text))))):
        tree = ast.parse(text)
        node, change = list(_places(tree))[number]
        before = ast.unparse(node)
        change()
        yield Mutant(module, node.lineno, before, ast.unparse(node), ast.unparse(tree))


def _places(tree: ast.AST) -> Iterator[tuple[ast.expr, Callable[[], None]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
            yield node, lambda node=node: node.ops.__setitem__(0, _COMPARE[type(node.ops[0])]())
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY and not _is_text(node):
            yield node, lambda node=node: setattr(node, "op", _BINARY[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield node, lambda node=node: setattr(node, "op", _BOOLEAN[type(node.op)]())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, lambda node=node: setattr(node, "op", ast.UAdd())
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, lambda node=node: setattr(node, "value", node.value + 1)


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(x, ast.JoinedStr) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in sides
    )


def survives(mutant: Mutant, copy: Path, tests: str) -> bool:
    """Whether the tests pass with the mutant in the copy; the module is put back."""
    place = copy / mutant.module.relative_to(ROOT)
    original = place.read_text()
    place.write_text(mutant.source)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *_own(mutant.module, copy, tests)]
    try:
        environment = os.environ | {"PYTHONPATH": f"{copy}:{copy / 'kernels'}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT, check=False)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        place.write_text(original)


def _own(module: Path, copy: Path, tests: str) -> list[str]:
    """The module's own test file first, as it kills most; then the whole folder."""
    own = Path(tests) / f"test_{module.stem}.py"
    return [str(own), tests] if (copy / own).exists() else [tests]


def main() -> int:
    """Draw mutants, run each, print the survivors; exit code 0, since a person judges them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("package")
    options.add_argument("tests")
    options.add_argument("--sample", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    modules = sorted((ROOT / given.package).rglob("*.py"))
    found = [mutant for module in modules for mutant in mutants(module)]
    drawn = random.Random(given.seed).sample(found, min(given.sample, len(found)))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        living = [mutant for mutant in drawn if _told(mutant, survives(mutant, copy, given.tests))]
    print(f"{given.package}: {len(drawn)} of {len(found)} mutants tried, {len(drawn) - len(living)} killed")
    return 0


def _told(mutant: Mutant, lives: bool) -> bool:
    if lives:
        print(f"lives: {mutant.module.relative_to(ROOT)}:{mutant.line}: {mutant.before}  →  {mutant.after}", flush=True)
    return lives


if __name__ == "__main__":
    raise SystemExit(main())
