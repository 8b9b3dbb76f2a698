"""Somebody who watches a run step by step, beside the executor: diagnosis does. An observer changes nothing."""

from __future__ import annotations

from typing import Protocol

from replaycheck.schedule.steps import Row, Step

from .batch import Result
from .pool import Pool
from .state import SequenceState

__all__ = ["Observer"]


class Observer(Protocol):
    """Tensors that it gets are overwritten later; who keeps one copies it."""

    def stepped(self, step: Step, pool: Pool) -> None:
        """A step that computes nothing was done."""

    def loaded(self, row: Row, state: SequenceState) -> None:
        """A row is about to continue this state."""

    def taken(self, row: Row, result: Result, pool: Pool) -> None:
        """A row was computed, and its states are stored."""
