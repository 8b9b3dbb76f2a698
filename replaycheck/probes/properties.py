"""The columns of ``probe kernels``: what is asked of every kernel, in three groups that fit a terminal each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replaycheck.schema.probe_table import ProbeCell, ProbeProperty
from replaycheck_kernels.providers import ProviderError

from . import accuracy, claim, layout, packing, snapshots, stores
from .answer import Answer, CannotProbe
from .subject import Subject


@dataclass(frozen=True)
class Property:
    """``meaning`` is the question that a cell answers."""

    name: str
    group: str
    meaning: str
    check: Callable[[Subject], Answer]

    def described(self) -> ProbeProperty:
        return ProbeProperty(name=self.name, group=self.group, meaning=self.meaning)


_NUMBERS, _STATES, _NEIGHBOURS = "numbers", "states", "neighbours"

PROPERTIES = (
    Property("error", _NUMBERS, "error of o and state against float64, over decays and pools", accuracy.error),
    Property("recipe", _NUMBERS, "what it exposes against the emulator of its recipe", claim.claim),
    Property("spans", _NUMBERS, "finite where decays span more than 88 nat", accuracy.spans),
    Property("activation", _NUMBERS, "beta and decay activated once", accuracy.activation),
    Property("layout", _NUMBERS, "states are [V, K]; K ≠ V", layout.layout),
    Property("forms", _NUMBERS, "chunk against recurrent form", accuracy.forms),
    Property("off-grid", _NUMBERS, "cut and carried on off the chunk grid", snapshots.off_grid),
    Property("restore", _STATES, "restored at each chunk boundary and carried on, each pool", snapshots.restore),
    Property("snapshot", _STATES, "a snapshot is the accumulator at its token", snapshots.snapshot),
    Property("asking", _STATES, "asking for a snapshot changes nothing", snapshots.asking),
    Property("stores", _STATES, "a store is one direct cast, each pool dtype", stores.stores),
    Property("untouched", _STATES, "NaN in other slots and sequences stays there", stores.untouched),
    Property("fp16-range", _STATES, "fp16 pool: overflow to infinity, subnormals kept", stores.fp16_range),
    Property("repeat", _NEIGHBOURS, "the same call twice", packing.repeat),
    Property("alone", _NEIGHBOURS, "packed against alone, in every order", packing.alone),
    Property("batch", _NEIGHBOURS, "the same sequence in batches of 1, 2, 8, 64", packing.batch),
    Property("future", _NEIGHBOURS, "a prefix doesn't depend on what follows", packing.future),
)
NAMES = tuple(each.name for each in PROPERTIES)


def probe(name: str, subject: Subject) -> ProbeCell:
    """One cell; a kernel that fails while it is probed is broken, and the others go on.

    Raises:
        KeyError: no such property.
    """
    chosen = {each.name: each for each in PROPERTIES}[name]
    try:
        return chosen.check(subject).cell(name)
    except CannotProbe as reason:
        return Answer("can't", str(reason)).cell(name)
    except Exception as error:
        if _refused(error, subject):
            return Answer("can't", str(error)).cell(name)
        return crashed(name, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")


def _refused(error: Exception, subject: Subject) -> bool:
    """Whether the kernel said that it can't: a provider's error, or the contract's ValueError, which names the kernel."""
    named = isinstance(error, ValueError) and str(error).startswith(subject.found.name)
    return named or isinstance(error, ProviderError)


def crashed(name: str, reason: str) -> ProbeCell:
    """The cell of a property whose process died, with its last words."""
    return Answer("broken", f"crashed: {reason[:300]}").cell(name)
