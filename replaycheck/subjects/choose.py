"""Whose answers a run compares: the lab, or a subject that is found by name and replays whole schedules itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from replaycheck.errors import EngineEnvironmentError, UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.subjects.protocol import Subject, SubjectOptions

__all__ = ["GROUP", "LAB", "SUBJECTS", "Subject", "find_subject", "make_subject"]

LAB = "lab"

GROUP = "replaycheck.subjects"
"""Entry points of other packages: a name, and ``pkg.mod:factory``."""

#: Subjects that ship, beside the lab, as ``pkg.mod:factory``.
SUBJECTS: Mapping[str, str] = MappingProxyType(
    {
        "null": "replaycheck.subjects.null:factory",
        "transformers": "replaycheck.subjects.transformers.subject:factory",
        "llamacpp": "replaycheck.subjects.server.llamacpp.factory:factory",
        "vllm": "replaycheck.subjects.server.vllm:factory",
        "sglang": "replaycheck.subjects.server.sglang:factory",
        "openai": "replaycheck.subjects.server.openai:factory",
        "openai-text": "replaycheck.subjects.server.plain:factory",
        "vllm-offline": "replaycheck.subjects.server.offline:factory",
    }
)

NO_OPTIONS = SubjectOptions()


@lru_cache(maxsize=4)
def find_subject(name: str, options: SubjectOptions = NO_OPTIONS) -> Subject:
    """The same subject for the same name and options, made once a process; see :func:`make_subject`."""
    return make_subject(name, options)


def make_subject(name: str, options: SubjectOptions = NO_OPTIONS) -> Subject:
    """A shipped subject, one that a package announces, or anybody's by ``package.module:factory``.

    A factory takes the options as its one argument, or none if it needs none.

    Raises:
        UsageError: there is none, it doesn't take what was given, or what it makes isn't a subject.
        EngineEnvironmentError: something that it needs isn't installed, or its engine can't be reached.
    """
    factory = _factory(name)
    made = factory(options) if _takes_options(factory, name, options) else factory()
    if not isinstance(made, Subject):
        raise UsageError(
            f"{name!r} makes a {type(made).__name__}, which has no describe() and replay(); "
            f"`replaycheck subject check {name}` says what a subject needs"
        )
    return made


def _factory(name: str) -> Callable[..., Any]:
    place = SUBJECTS.get(name) or (name if ":" in name else _announced(name))
    module, _, attribute = place.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise UsageError(f"subject {name!r}: there is no module {error.name!r}; {_advice()}") from None
        raise EngineEnvironmentError(f"subject {name!r} needs {error.name!r}, which isn't installed") from None
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"subject {name!r} can't be made: {error}; {_advice()}") from None
    if not callable(found):
        raise UsageError(f"subject {name!r} is a {type(found).__name__}; give a function that makes a subject")
    return found  # type: ignore[no-any-return]


def _announced(name: str) -> str:
    known = {point.name: point.value for point in entry_points(group=GROUP)}
    if name not in known:
        raise UsageError(f"unknown subject {name!r}{did_you_mean(name, [LAB, *SUBJECTS, *known])}; {_advice(known)}")
    return known[name]


def _advice(announced: Mapping[str, str] = MappingProxyType({})) -> str:
    return f"choose {choices([LAB, *SUBJECTS, *announced])}, or give package.module:factory"


def _takes_options(factory: Callable[..., Any], name: str, options: SubjectOptions) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return False
    if any(each.kind is not inspect.Parameter.KEYWORD_ONLY for each in parameters):
        return True
    if options != NO_OPTIONS:
        raise UsageError(f"subject {name!r} takes no options; leave --url, --model and --subject-option out")
    return False
