"""Waivers: a known failure that somebody answers for until a date."""

from __future__ import annotations

from datetime import date

from replaycheck.schema.gate import Waiver
from replaycheck.schema.result import GateResult

__all__ = ["waived"]


def waived(result: GateResult, waiver: Waiver | None, today: date) -> GateResult:
    """The result under its waiver: a failure is waived through the last day, and fails again after it.

    What isn't a failure stays what it is: a waiver is no evidence, so it doesn't cover a vacuous gate.
    """
    if waiver is None:
        return result
    said = f"{waiver.reason} ({waiver.owner}, until {waiver.expires.isoformat()})"
    expired = today > waiver.expires
    told = {"waiver": said, "sentence": f"{result.sentence} {_about(result, waiver, expired)}"}
    if result.verdict == "fail" and not expired:
        told["verdict"] = "waived"
    return result.model_copy(update=told)


def _about(result: GateResult, waiver: Waiver, expired: bool) -> str:
    date_, owner = waiver.expires.isoformat(), waiver.owner
    if result.verdict != "fail":
        return f"Its waiver of {owner} (until {date_}) isn't needed; take it out of the file."
    if expired:
        return f"Its waiver expired on {date_}: {waiver.reason}; ask {owner}, then renew or remove it."
    return f"Waived until {date_} by {owner}: {waiver.reason}."
