"""The training log: one JSON object a line, kept beside the weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from replaycheck.say import Say

__all__ = ["LOG_FILE", "TrainingLog", "environment"]

LOG_FILE = "training_log.jsonl"


@dataclass(frozen=True)
class TrainingLog:
    """Appends records to ``file`` and shows each to ``report``."""

    file: Path
    report: Say

    def write(self, **record: object) -> None:
        """One record; keys in the order given."""
        line = json.dumps(record, allow_nan=False)
        with self.file.open("a", encoding="ascii") as stream:
            stream.write(line + "\n")
        self.report(line)


def environment(device: str) -> dict[str, str]:
    """Device and versions, as far as they decide the result."""
    found = {"device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    for package in ("torch", "triton", "fla-core"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
