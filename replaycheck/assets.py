"""Where the shipped suites, presets, models and gate files are: in a checkout, or inside an installed wheel.

A checkout keeps ``traces/`` and ``models/`` at its root; a wheel holds the same folders as ``replaycheck/_assets``.
A name is looked up among what is there and never joined to a path, so it can't lead outside the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from replaycheck.errors import EngineEnvironmentError, UsageError, choices
from replaycheck.names import did_you_mean

__all__ = ["DEFAULT_PRESET", "gate_file", "gate_files", "golden_file", "model_dir", "models", "presets", "suite_file",
           "trace_suite", "trace_suites"]  # fmt: skip

#: What ``replaycheck run`` runs when it is told nothing.
DEFAULT_PRESET = "quick"

_PACKAGE = Path(__file__).resolve().parent


@cache
def _root() -> Path:
    """The folder that holds ``traces/`` and ``models/``; the checkout wins over an installed copy."""
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "traces").is_dir():
        return checkout
    installed = _PACKAGE / "_assets"
    if installed.is_dir():
        return installed
    raise EngineEnvironmentError(
        f"the shipped traces and models are neither in {str(checkout)!r} nor in {str(installed)!r}; "
        "install replaycheck again, from a wheel or with pip install --editable"
    )


def _named(paths: list[Path]) -> dict[str, Path]:
    return {path.stem: path for path in sorted(paths)}


def trace_suites() -> Mapping[str, Path]:
    """The shipped trace files by name."""
    return _named(list((_root() / "traces").glob("*.jsonl")))


def presets() -> Mapping[str, Path]:
    """The shipped suite files by name."""
    return _named(list((_root() / "traces").glob("*.toml")))


def models() -> Mapping[str, Path]:
    """The shipped model folders by name; a folder is a model if it has a config."""
    return {path.parent.name: path.parent for path in sorted((_root() / "models").glob("*/config.json"))}


def gate_files() -> Mapping[str, Path]:
    """The shipped gate files by name."""
    return _named(list((_PACKAGE / "gates").glob("*.toml")))


def trace_suite(name: str) -> Path:
    """The trace file of ``suite:NAME``. :class:`UsageError` names the suites that ship."""
    return _pick("trace suite", name, trace_suites(), "name one of these, or give the path of a .jsonl file")


def suite_file(preset: str) -> Path:
    """The suite file of ``--preset NAME``. :class:`UsageError` names the presets that ship."""
    return _pick("preset", preset, presets(), "name one of these, or give the path of a SUITE.toml")


def gate_file(name: str) -> Path:
    """The shipped gate file ``NAME``. :class:`UsageError` names the files that ship."""
    return _pick("gate file", name, gate_files(), "name one of these, or give the path of a .toml file")


def model_dir(name: str | None = None) -> Path:
    """The folder of the shipped model ``name``; without a name, of the only one there is."""
    shipped = models()
    if name is None:
        if len(shipped) == 1:
            return next(iter(shipped.values()))
        found = "no model ships with this installation" if not shipped else f"the shipped models are {choices(shipped)}"
        raise UsageError(f"{found}; say with --model DIR which one to use")
    return _pick("model", name, shipped, "name one of these, or give the path of a model's folder")


def golden_file() -> Path:
    """The golden log-probabilities of the shipped model."""
    return _root() / "traces" / "golden.safetensors"


def _pick(kind: str, name: str, shipped: Mapping[str, Path], advice: str) -> Path:
    if name in shipped:
        return shipped[name]
    allowed = f"those that ship are {choices(shipped)}; {advice}" if shipped else "none ships with this installation"
    raise UsageError(f"{kind} {name!r} is unknown{did_you_mean(name, shipped)}; {allowed}")
