"""The settings of a saved run, for verbs that run parts of it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replaycheck.replay.settings import Settings

__all__ = ["settings_of"]


def settings_of(path: Path) -> Settings:
    """From the run's own command line. Raises :class:`UsageError` if `replaycheck run` didn't make it."""
    from replaycheck.cli.groups import Engine, Replayed
    from replaycheck.cli.run import command as run_command
    from replaycheck.errors import UsageError
    from replaycheck.replay.store import open_run, read_environment

    words = list(read_environment(open_run(path)).command)
    if "run" not in words:
        raise UsageError(f"{str(path)!r} wasn't made by `replaycheck run`; give a run that was")
    with run_command.make_context("run", words[words.index("run") + 1 :]) as context:
        p = context.params
    return Replayed.of(p).settings(p["suite"], Engine.of(p), p["subject"], p["gates"], p["faults"], p["free"])[0]
