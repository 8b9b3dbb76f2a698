"""Shipped files are found in a checkout and in an installed wheel; a name can't leave its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck import assets
from replaycheck.errors import EngineEnvironmentError, UsageError

Lay = Callable[..., None]


@pytest.fixture
def lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lay:
    """Put the package into an empty folder and files beside it."""
    package = tmp_path / "site" / "replaycheck"
    package.mkdir(parents=True)
    monkeypatch.setattr(assets, "_PACKAGE", package)

    def files(*names: str) -> None:
        assets._root.cache_clear()
        for name in names:
            path = package.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    yield files
    assets._root.cache_clear()


def test_a_wheel_holds_its_own_assets(lay: Lay) -> None:
    lay("replaycheck/_assets/traces/quick.jsonl", "replaycheck/_assets/models/tiny/config.json")
    assert assets.trace_suite("quick").name == "quick.jsonl"
    assert assets.model_dir() == assets.model_dir("tiny")
    assert assets.model_dir().parent.parent.name == "_assets"


def test_a_checkout_wins_over_a_copy(lay: Lay) -> None:
    lay("replaycheck/_assets/traces/quick.toml", "traces/quick.toml", "pyproject.toml")
    assert "_assets" not in assets.suite_file("quick").parts


def test_without_assets_the_installation_is_at_fault(lay: Lay) -> None:
    lay()
    with pytest.raises(EngineEnvironmentError, match="install replaycheck again"):
        assets.trace_suites()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "quick.jsonl"])
def test_a_name_is_no_path(name: str, lay: Lay) -> None:
    lay("replaycheck/_assets/traces/quick.jsonl", "replaycheck/_assets/secret.jsonl")
    with pytest.raises(UsageError, match=r"is unknown( \(did you mean 'quick'\?\))?; those that ship are 'quick'"):
        assets.trace_suite(name)


def test_which_model_is_meant_must_be_clear(lay: Lay) -> None:
    lay("replaycheck/_assets/traces/quick.jsonl")
    with pytest.raises(UsageError, match="no model ships with this installation; say with --model DIR"):
        assets.model_dir()
    lay("replaycheck/_assets/models/a/config.json", "replaycheck/_assets/models/b/config.json")
    with pytest.raises(UsageError, match="the shipped models are 'a' or 'b'; say with --model DIR"):
        assets.model_dir()
    assert assets.model_dir("b").name == "b"
