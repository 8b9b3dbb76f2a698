"""Mutants of a module: one operator, truth value or number changed at a time, in its syntax tree.

Lines keep their numbers, so what coverage says of a line holds for its mutants. Numbers grow by one; comparisons take or
leave out their boundary, or turn round; ``and`` and ``or``, ``+`` and ``-``, ``*`` and ``/`` change places; ``not`` goes.
Decorators stay: whether a dataclass is frozen changes no answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip

LONGEST = 100
"""Letters of an expression that still tells where in it a number stands; of a longer one, the number is told alone."""


@dataclass(frozen=True)
class Mutant:
    """One change of a module. ``place`` counts the changes of the module: with its source it names the mutant.

    Attributes:
        module: relative to the root.
        within: qualified name of the outermost function that holds it; "" for what runs when the module is imported.
        line: of the changed expression; ``lines``: those of its statement, first and last.
        before, after: the smallest expression that tells the change.
    """

    module: str
    place: int
    within: str
    line: int
    lines: tuple[int, int]
    before: str
    after: str

    @property
    def told(self) -> str:
        """For a person."""
        return f"{self.module}:{self.line} {self.within or '(module)'}: {self.before}  →  {self.after}"


@dataclass(frozen=True)
class _At:
    """Where a walk through the tree is: the function, and the lines of the statement."""

    names: tuple[str, ...] = ()
    function: bool = False
    lines: tuple[int, int] = (1, 1)

    @property
    def within(self) -> str:
        return ".".join(self.names) if self.function else ""


@dataclass(frozen=True)
class _Edit:
    """An attribute of a node, or an item of a list of operators, that becomes ``new``."""

    shown: ast.AST
    owner: Any
    key: Any
    new: Any

    def swap(self, new: Any) -> Any:
        """Put ``new`` there; what was there before."""
        if isinstance(self.owner, list):
            old, self.owner[self.key] = self.owner[self.key], new
        else:
            old = getattr(self.owner, self.key)
            setattr(self.owner, self.key, new)
        return old


@dataclass(frozen=True)
class _Change:
    line: int
    at: _At
    edit: _Edit


def mutants(root: Path, module: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its tree."""
    changes = list(_changes(ast.parse((root / module).read_text()), _At()))
    return [_mutant(module, place, change) for place, change in enumerate(changes)]


def mutated(text: str, place: int) -> ast.Module:
    """The tree of a module's text with its change number ``place`` made."""
    tree = ast.parse(text)
    edit = list(_changes(tree, _At()))[place].edit
    edit.swap(edit.new)
    return tree


def _mutant(module: str, place: int, change: _Change) -> Mutant:
    edit = change.edit
    before = ast.unparse(edit.shown)
    old = edit.swap(edit.new)
    after = ast.unparse(edit.shown)
    edit.swap(old)
    return Mutant(module, place, change.at.within, change.line, change.at.lines, before, after)


def _changes(parent: ast.AST, at: _At) -> Iterator[_Change]:
    for field, children in ast.iter_fields(parent):
        if field == "decorator_list":
            continue
        for node in children if isinstance(children, list) else [children]:
            if isinstance(node, ast.AST):
                here = _into(parent, field, node, at)
                for edit in _edits(node, parent):
                    yield _Change(node.lineno, here, edit)  # type: ignore[attr-defined]
                yield from _changes(node, here)


def _into(parent: ast.AST, field: str, node: ast.AST, at: _At) -> _At:
    """Where ``node`` is. Defaults of arguments run with what is around the function, and only its body inside."""
    names, function = at.names, at.function
    if not function and isinstance(parent, ast.FunctionDef | ast.ClassDef) and field == "body":
        names, function = (*names, parent.name), isinstance(parent, ast.FunctionDef)
    return _At(names, function, _lines(node) if isinstance(node, ast.stmt) else at.lines)


def _lines(node: ast.stmt) -> tuple[int, int]:
    """Of a statement; of one with a body, of its head. Patterns of a match belong to its head."""
    body = getattr(node, "body", None)
    return node.lineno, max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno


def _edits(node: ast.AST, parent: ast.AST) -> Iterator[_Edit]:
    """The changes of one node."""
    match node:
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                if type(op) in _COMPARE:
                    yield _Edit(node, ops, number, _COMPARE[type(op)]())
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _BINARY and not _is_text(node):
            yield _Edit(node, node, "op", _BINARY[type(op)]())
        case ast.BoolOp(op=op):
            yield _Edit(node, node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _Edit(node, node, "operand", ast.copy_location(ast.UnaryOp(ast.Not(), operand), operand))
        case ast.Constant(value=bool(value)):
            yield _Edit(_shown(node, parent), node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _Edit(_shown(node, parent), node, "value", value + 1)


def _shown(node: ast.Constant, parent: ast.AST) -> ast.AST:
    whole = isinstance(parent, ast.Dict | ast.FunctionDef | ast.ClassDef) or len(ast.unparse(parent)) > LONGEST
    return node if whole else parent


def _is_text(node: ast.AST) -> bool:
    sides = (getattr(node, "left", None), getattr(node, "right", None), getattr(node, "value", None))
    return any(
        isinstance(x, ast.JoinedStr) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in sides
    )
