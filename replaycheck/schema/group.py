"""groups/GROUP.json: what of one finished group isn't in its tables.

It is written after the group's tables, so its presence says that the group is done; a resumed run adds these numbers up
instead of replaying.
"""

from __future__ import annotations

from typing import Literal

from .base import Record
from .result import ArmResult, AuditResult


class GroupRecord(Record):
    """The share of one group in the arms' and the audits' sums."""

    schema_version: Literal[1] = 1
    group: str
    arms: tuple[ArmResult, ...]
    audits: tuple[AuditResult, ...]
