"""``--floor FILE``: a stored floor for a run that measures the same thing in the same place."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import torch

from replaycheck.replay.settings import Settings, digest_files
from replaycheck.schema.floor import FloorPlace
from replaycheck.subjects.choose import LAB, find_subject

from .place import given_floors, place_of

__all__ = ["place_here", "with_floor"]


def place_here(settings: Settings) -> FloorPlace:
    """Where a run with these settings measures."""
    name = None if settings.device == "cpu" else str(torch.cuda.get_device_name(settings.device))
    if settings.subject == LAB:
        model, versions = settings.model.resolve().name, tuple[tuple[str, str], ...]()
    else:
        found = find_subject(settings.subject, settings.options).describe()
        model, versions = found.name, tuple(found.versions.items())
    return place_of(
        settings.subject,
        model,
        settings.model_digest,
        settings.recipe,
        settings.label,
        settings.device,
        name,
        versions,
    )


def with_floor(settings: Settings, path: Path | None) -> tuple[Settings, tuple[str, ...]]:
    """The settings with the floor in ``path``, and warnings; without a path the run measures its own.

    Raises:
        UsageError: it isn't a floor, or one from elsewhere.
    """
    if path is None:
        return settings, ()
    floors, warnings = given_floors(path, place_here(settings), settings.suite_digest, settings.seed)
    floors = floors.model_copy(update={"digest": digest_files([path])})
    reproduce = f"{settings.reproduce} {shlex.join(['--floor', str(path)])}"
    return replace(settings, floor=floors, reproduce=reproduce), warnings
