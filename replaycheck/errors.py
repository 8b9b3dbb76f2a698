"""The exceptions that reach a user, and the exit codes of the command line.

    ReplayCheckError
    ├── UsageError              exit 2: input, option or configuration is wrong
    ├── EngineEnvironmentError  exit 4: no GPU, engine unreachable, missing extra
    └── InternalError           exit 3: our own invariant broke

Messages say what was given, what is allowed and what to do, in one sentence; a bad file is named with its line.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script may rely on (docs/ci.md, Exit codes)."""

    #: all gates passed, nothing vacuous
    PASS = 0
    #: a gate failed
    FAIL = 1
    #: usage or configuration error
    USAGE = 2
    #: internal error, ours
    INTERNAL = 3
    #: environment: no GPU, engine unreachable or crashed, missing extra
    ENVIRONMENT = 4
    #: nothing was compared, or a warm arm never hit
    VACUOUS = 5
    #: too little evidence at the declared margin
    INCONCLUSIVE = 6
    #: interrupted; partial results are saved
    INTERRUPTED = 130


#: Several conditions at once: the first of these that applies is the exit code.
PRECEDENCE = (
    ExitCode.INTERNAL,
    ExitCode.ENVIRONMENT,
    ExitCode.USAGE,
    ExitCode.FAIL,
    ExitCode.VACUOUS,
    ExitCode.INCONCLUSIVE,
)


class ReplayCheckError(Exception):
    """Base of every error that replaycheck raises on purpose."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(ReplayCheckError):
    """What the user gave is wrong; the text says what is allowed."""

    exit_code = ExitCode.USAGE


class EngineEnvironmentError(ReplayCheckError):
    """The machine or an engine can't do it; the text says what to install or start."""

    exit_code = ExitCode.ENVIRONMENT


class InternalError(ReplayCheckError):
    """An invariant of our own code broke."""

    exit_code = ExitCode.INTERNAL


def choices(allowed: object) -> str:
    """Render allowed values for an error text: ``'a', 'b' or 'c'``."""
    names = [repr(str(name)) for name in allowed]  # type: ignore[attr-defined]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
