"""What a subject left out of its answers, and the state dtype that it was asked for: evidence that isn't a number."""

from __future__ import annotations

from pydantic import Field

from .arm import PoolDtype
from .base import Record

__all__ = ["Gaps", "StateDtype", "Where"]


class Where(Record):
    """A scored position."""

    trace: str
    branch: int
    turn: int = Field(description="assistant turns before it on its path")
    position: int | None = Field(default=None, description="of the predicted token, from bos = 0; null: the whole turn")

    def __str__(self) -> str:
        place = f"trace {self.trace}, branch {self.branch}, turn {self.turn}"
        return place if self.position is None else f"{place}, position {self.position}"


class Gaps(Record):
    """Positions of an arm without a log-probability, with the first of each kind."""

    missing: int = Field(description="of which nothing was said about the token")
    first_missing: Where | None
    nan: int = Field(description="at which NaN was said, or the logits hold one")
    first_nan: Where | None


class StateDtype(Record):
    """The dtype of the recurrent states that was asked for, and what runs."""

    asked: PoolDtype
    in_use: PoolDtype | None = Field(description="null: it can't be seen")

    @property
    def another(self) -> bool:
        """Whether another one than the one asked for was seen in use."""
        return self.in_use is not None and self.in_use is not self.asked

    def __str__(self) -> str:
        if self.in_use is None:
            return f"a state dtype of {self.asked} was asked for; which one is in use can't be seen"
        return f"a state dtype of {self.asked} was asked for, and {self.in_use} is in use"
