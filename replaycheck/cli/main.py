"""The command ``replaycheck``: the table of verbs, and one place where errors become exit codes.

A verb is a click command whose return value is its exit code (none means 0). Errors on purpose print one line on
stderr; anything else is our bug and says so. Nothing here imports torch, pandas or pydantic.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from replaycheck import __version__
from replaycheck.cli.lazy import LazyGroup, Verb
from replaycheck.errors import ExitCode, InternalError, ReplayCheckError
from replaycheck.names import did_you_mean
from replaycheck.text import printable

__all__ = ["VERBS", "invoke", "main"]

#: A program whose reader went away ends as if by SIGPIPE (13); 1 would mean that a gate failed.
BROKEN_PIPE = 128 + 13

#: What click's completion scripts set: to print the script, or to ask for words.
COMPLETE = "_REPLAYCHECK_COMPLETE"

EXIT_CODES = {
    ExitCode.PASS: "all gates pass",
    ExitCode.FAIL: "a gate failed",
    ExitCode.USAGE: "usage: an option, a name or a file is wrong",
    ExitCode.INTERNAL: "a bug of replaycheck's",
    ExitCode.ENVIRONMENT: "environment: no GPU, a server away, a package missing",
    ExitCode.VACUOUS: "nothing was compared, or the cache never hit",
    ExitCode.INCONCLUSIVE: "too little evidence for a verdict",
    ExitCode.INTERRUPTED: "interrupted; what was written is kept",
}

VERBS = {
    "run": Verb("replaycheck.cli.run", "Replay traces with and without the cache, judge, write a report."),
    "compare": Verb("replaycheck.cli.compare", "Compare two recordings position by position."),
    "gate": Verb("replaycheck.cli.gate", "Judge a saved run again, by any gate file."),
    "report": Verb("replaycheck.cli.report", "Render the report of a saved run again."),
    "view": Verb("replaycheck.cli.view", "Look at a saved run's report in a browser."),
    "merge": Verb("replaycheck.cli.merge", "Join the shards of a run."),
    "probe": Verb("replaycheck.cli.probe", "Check kernels and state operations exactly, without a model."),
    "floor": Verb("replaycheck.cli.floor", "Measure the noise under which a difference says nothing."),
    "sweep": Verb("replaycheck.cli.sweep", "Try checkpoint intervals and pool dtypes: what each costs and changes."),
    "selftest": Verb("replaycheck.cli.selftest", "Plant a fault on purpose and see that the gates catch it."),
    "bisect": Verb("replaycheck.cli.bisect", "Make a failing cell small, or find the commit that broke it."),
    "explain": Verb("replaycheck.cli.explain", "Explain a finding's code."),
    "trace": Verb("replaycheck.cli.trace", "List, show, count, validate and make traces."),
    "subject": Verb("replaycheck.cli.subject", "Check that a subject of your own can be run."),
    "model": Verb("replaycheck.cli.model", "Show a model's card, or train the model that ships."),
    "bench": Verb("replaycheck.cli.bench", "Measure how fast kernels and whole runs are, beside others."),
    "capacity": Verb("replaycheck.cli.capacity", "Compute what recurrent states cost, and what speculation wastes."),
    "doctor": Verb("replaycheck.cli.doctor", "Say what this machine can run, and what is missing."),
    "schema": Verb("replaycheck.cli.schema", "Print the JSON Schemas of the files."),
}


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExit codes, the first of 3, 4, 2, 1, 5, 6 if several apply:\n"
    + "".join(f"  {code:<5}{text}\n" for code, text in EXIT_CODES.items())
    + "\n\b\nExample:\n  replaycheck run --preset quick\n"
    + f'\n\b\nCompletion, in bash (or zsh, fish):\n  eval "$({COMPLETE}=bash_source replaycheck)"',
)
@click.version_option(__version__, prog_name="replaycheck")
def cli() -> None:
    """Does reusing a recurrent state change what the model says?"""


def main() -> NoReturn:
    """The entry point of the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Unicode shows escapes; without this, printing would fail and look like our bug.
            stream.reconfigure(errors="backslashreplace")
    if asked := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "replaycheck", COMPLETE, asked))
    code = invoke(sys.argv[1:])
    if code == ExitCode.INTERRUPTED:
        _end_at_once_if_told_again()
    sys.exit(code)


def invoke(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; every exception ends here."""
    try:
        code = _run(list(args))
        sys.stdout.flush()
    except click.ClickException as error:
        _with_nearest(error).show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted; what was written so far is kept")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except InternalError as error:
        return _our_bug(error)
    except ReplayCheckError as error:
        _say(f"error: {error}")
        return error.exit_code
    except Exception as error:
        return _our_bug(error)
    return code


def _end_at_once_if_told_again() -> None:
    """While Python waits for its threads, a second Ctrl-C would print a traceback; `timeout` sends two signals at once."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: os._exit(ExitCode.INTERRUPTED))


def _run(args: list[str]) -> int:
    # Not cli.main(): it would turn a broken pipe into exit code 1, which means that a gate failed.
    try:
        with cli.make_context("replaycheck", args) as context:
            return int(cli.invoke(context) or 0)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code


def _with_nearest(error: click.ClickException) -> click.ClickException:
    """A misspelt option in our words: click names up to three others that are hardly alike."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    known = [name for each in error.ctx.command.get_params(error.ctx) for name in (*each.opts, *each.secondary_opts)]
    meant = did_you_mean(error.option_name, [name for name in known if name.startswith("-")])
    said = f"{error.option_name!r} is no option{meant}; `{error.ctx.command_path} --help` lists all"
    return click.UsageError(said, error.ctx)


def _say(text: str) -> None:
    click.echo(f"replaycheck: {printable(text)}", err=True)


def _our_bug(error: Exception) -> int:
    """One line for an error that is ours, and the traceback where it can be found."""
    if os.environ.get("REPLAYCHECK_TRACEBACK"):
        traceback.print_exception(error)
        where = "its traceback is above"
    else:
        where = _keep_traceback(error)
    _say(f"internal error, a bug of replaycheck's: {type(error).__name__}: {error}; {where}; please report it")
    return ExitCode.INTERNAL


def _keep_traceback(error: Exception) -> str:
    """Save the traceback, since what failed may have run for long; say where it is."""
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="replaycheck-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as handle:
            handle.write(text)
    except OSError:
        return "set REPLAYCHECK_TRACEBACK=1 and run again to see its traceback"
    return f"its traceback is in {handle.name} (REPLAYCHECK_TRACEBACK=1 prints it instead)"


def _forget_stdout() -> None:
    """Nobody reads stdout any more; keep the interpreter from complaining about that when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
