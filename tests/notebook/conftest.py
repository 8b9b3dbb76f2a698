"""Small runs on disk, made of synthetic recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

import replaycheck
from replaycheck.notebook.run import LoadedRun
from tests.synthetic_result import whole
from tests.synthetic_run import in_warm, noise, turns


def noisy(found: dict) -> dict:
    """Warm recordings whose logits aren't split-rounded's."""
    return in_warm(found, turns=turns(True, noise(0.3)))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that passes, and one of the same inputs that fails."""
    good, bad = (tmp_path_factory.mktemp("runs") / name for name in ("good", "bad"))
    whole(good)
    whole(bad, noisy)
    return good, bad


@pytest.fixture
def good(folders: tuple[Path, Path]) -> LoadedRun:
    return replaycheck.load(folders[0])


@pytest.fixture
def bad(folders: tuple[Path, Path]) -> LoadedRun:
    return replaycheck.load(str(folders[1]))
