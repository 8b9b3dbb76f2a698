"""The settings of a saved run, for verbs that run parts of it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replaycheck.replay.settings import Settings

__all__ = ["settings_of"]


def settings_of(path: Path) -> Settings:
    """From the run's own command line. Raises :class:`UsageError` if `replaycheck run` didn't make it."""
    from replaycheck.cli.options import subject_options
    from replaycheck.cli.run import command as run_command
    from replaycheck.errors import UsageError
    from replaycheck.replay.settings import resolve
    from replaycheck.replay.store import open_run, read_environment
    from replaycheck.subjects.lab.kernels import KernelChoice

    words = list(read_environment(open_run(path)).command)
    if "run" not in words:
        raise UsageError(f"{str(path)!r} wasn't made by `replaycheck run`; give a run that was")
    with run_command.make_context("run", words[words.index("run") + 1 :]) as context:
        p = context.params
    choice = KernelChoice(p["kernels"], p["kernels_path"], p["device"], p["autotune"])
    settings, _ = resolve(
        p["suite"],
        p["preset"],
        p["traces"],
        p["model"],
        p["recipe"],
        p["gates"],
        p["faults"],
        p["seed"],
        choice,
        admitted=False,
        subject=p["subject"],
        options=subject_options(p["url"], p["model"], p["engine_model"], p["device"], p["subject_settings"]),
        free=p["free"],
    )
    return settings
