"""The faults that ship, by name and family, each with what it is expected to show."""

from __future__ import annotations

from dataclasses import replace

from .catalog import activation, ownership, position, precision, ranks, speculation
from .catalog.signatures import EXPECTED
from .fault import Fault

__all__ = ["FAMILIES", "FAULTS"]


def _expecting(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    return tuple(replace(fault, expected=EXPECTED.get(fault.name)) for fault in faults)


FAMILIES = {
    "precision": _expecting(precision.FAULTS),
    "position": _expecting(position.FAULTS),
    "ownership": _expecting(ownership.FAULTS),
    "speculation": _expecting(speculation.FAULTS),
    "activation": _expecting(activation.FAULTS),
    "ranks": _expecting(ranks.FAULTS),
}
FAULTS = {fault.name: fault for family in FAMILIES.values() for fault in family}
