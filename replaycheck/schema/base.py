"""The base of every record that replaycheck reads or writes.

Records are frozen, refuse unknown keys and refuse NaN and infinity, so that what is written is valid JSON and what is
read is what its author meant.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen pydantic model without surprises."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=False)
