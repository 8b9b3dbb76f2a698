"""groups/PART.json: what of the groups of one part isn't in its tables.

It is written after the part's tables, so its presence says that these groups are done; a resumed run adds the numbers up
instead of replaying.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Record
from .result import ArmResult, AuditResult


class GroupRecord(Record):
    """The share of a part in the arms' and the audits' sums. A part has the name of its first group."""

    schema_version: Literal[1] = 1
    group: str
    groups: tuple[str, ...] = Field(default=(), description="all groups of the part, if they are more than one")
    arms: tuple[ArmResult, ...]
    audits: tuple[AuditResult, ...]
