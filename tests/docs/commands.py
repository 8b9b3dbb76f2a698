"""Whether a command line of a page can be meant: its verb, options and values exist, and so do files and names in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise

import click

from replaycheck import assets
from replaycheck.cli.main import VERBS, cli
from replaycheck.diagnose.codes import CODES
from replaycheck.faults.shipped import FAULTS

from .blocks import ROOT, Line

__all__ = ["wrong", "wrong_verbs"]

#: Folders of the repository; a path that begins with one must be there.
_FOLDERS = (
    "docs/",
    "examples/",
    "models/",
    "tests/",
    "traces/",
    "kernels/",
    "replaycheck/",
    "reports/samples/",
    ".ci/",
)


def wrong(line: Line) -> list[str]:
    """What can't be right in it, a sentence each."""
    program, *words = line.words
    if program == "make":
        return [f"there is no make target {word!r}" for word in words if "=" not in word and word not in _targets()]
    return [*_unparsed(words), *(said for word in words for said in _missing(word)), *_unnamed(words)]


def _unparsed(words: list[str]) -> Iterator[str]:
    """Parse as far as click goes without running anything."""
    command: click.Command = cli
    name, parent = "replaycheck", None
    try:
        while True:
            context = command.make_context(name, list(words), parent=parent)
            if not isinstance(command, click.Group):
                return
            rest = [*context._protected_args, *context.args]
            found, inner, words = command.resolve_command(context, rest)
            assert found is not None and inner is not None
            command, name, parent = inner, found, context
    except click.exceptions.Exit:
        return  # --help and --version end here
    except click.ClickException as error:
        yield error.format_message()


def _missing(word: str) -> Iterator[str]:
    path = word.partition("=")[2] or word
    if path.startswith(_FOLDERS) and "*" not in path and not (ROOT / path).exists():
        yield f"there is no {path!r} in the repository"
    if (place := re.fullmatch(r"((?:examples|replaycheck|replaycheck_kernels)[\w.]*):(\w+)", word)) and not hasattr(
        import_module(place[1]), place[2]
    ):
        yield f"module {place[1]} has no {place[2]}"
    if word.startswith("suite:") and word[6:] not in assets.trace_suites():
        yield f"there is no {word!r}"


def _unnamed(words: list[str]) -> Iterator[str]:
    """Names that ship: of presets, gate files, faults and codes."""
    values = {option: value for option, value in pairwise(words) if option.startswith("--")}
    if (preset := values.get("--preset")) and preset not in assets.presets():
        yield f"there is no preset {preset!r}"
    if (gates := values.get("--gates")) and not gates.endswith(".toml") and gates not in assets.gate_files():
        yield f"there is no gate file {gates!r}"
    if (fault := values.get("--fault")) and ":" not in fault and fault not in FAULTS:
        yield f"there is no fault {fault!r}"
    if words[:1] == ["explain"] and len(words) > 1 and words[1] not in CODES and not words[1].startswith("-"):
        yield f"there is no code {words[1]!r}"


@cache
def _targets() -> frozenset[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(name for line in re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE) for name in line.split())


def wrong_verbs(text: str) -> list[str]:
    """Verbs in ``inline code`` that there aren't."""
    named = re.findall(r"`replaycheck ([a-z][a-z-]*)", text)
    return [f"there is no verb {verb!r}" for verb in named if verb not in VERBS]
