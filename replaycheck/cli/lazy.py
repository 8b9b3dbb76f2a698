"""A click group whose verbs are imported only when they are used, so that ``--help`` needs neither torch nor pandas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from replaycheck.errors import choices

__all__ = ["LazyGroup", "Verb"]


@dataclass(frozen=True)
class Verb:
    """A verb before it is imported: ``module`` exposes it as ``command``; ``summary`` is its line in ``--help``."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """A group over a table of verbs. Help and completion read the table; only a used verb is imported."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = dict(verbs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return None
        command = import_module(self.verbs[cmd_name].module).command
        assert isinstance(command, click.Command), f"{cmd_name}: .command is not a click command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.verbs and not name.startswith("-"):
            raise click.UsageError(f"{name!r} is no verb; allowed are {choices(self.verbs)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in self.verbs.items()])
