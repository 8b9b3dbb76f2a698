"""What a log-probability of a run is. Numbers of two kinds can't be compared, however close they are."""

from __future__ import annotations

from pydantic import Field

from .base import Record

__all__ = ["LogprobSemantics"]


class LogprobSemantics(Record):
    """The defaults are those of the lab, which wrote every run from before this was recorded. Null: not recorded."""

    said: str = Field(default="logits, float32", description="what the subject gives, in its own words")
    softmax: str = Field(default="whole vocabulary, float64", description="what is summed over, and in which precision")
    processed: bool = Field(default=False, description="after penalties, masks, or a temperature other than 1")
    temperature: float = 1.0
    vocabulary: str | None = Field(default=None, description="of the traces' token ids")
    precision: str | None = Field(
        default="fp32",
        description="coarsest format that every value has: fp64, fp32, fp16, bf16 or N decimals",
    )
    template: str | None = Field(default=None, description="chat template that made tokens of turns; null: none did")

    def unlike(self, other: LogprobSemantics) -> dict[str, tuple[str, str]]:
        """Fields that both recorded and that differ, by name: the value here and there."""
        mine, theirs = self.model_dump(), other.model_dump()
        # How many digits were reported bounds what a difference means, and is held against bounds; it isn't another number.
        known = [n for n in mine if n != "precision" and mine[n] is not None and theirs[n] is not None]
        return {name: (str(mine[name]), str(theirs[name])) for name in known if mine[name] != theirs[name]}
