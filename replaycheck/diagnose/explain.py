"""From symptoms to an explanation: code, sentence, evidence, confidence, and what was excluded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replaycheck.schema.arm import CHUNK

from .fading import Fading
from .locate import Named
from .rules import RULES, Confidence
from .symptoms import OWN, Symptoms
from .trail import Op

__all__ = ["UNKNOWN", "Explanation", "explain"]

UNKNOWN = "RC903"


@dataclass(frozen=True)
class Explanation:
    """``confidence``: certain where the bits prove it; none where no rule holds. excluded: other causes, with why not."""

    code: str
    confidence: Confidence
    sentence: str
    evidence: tuple[str, ...]
    excluded: tuple[str, ...]
    named: Named | None = None  # the request of the first wrong step


def explain(s: Symptoms) -> Explanation | None:
    """The explanation of a failing case; None if nothing is wrong."""
    if s.wrong is None and not s.refused and not s.lost_hits and s.repeats:
        return None
    rule = next((rule for rule in RULES if rule.holds(s)), None)
    code, confidence, when = (rule.code, rule.confidence, rule.when) if rule else (UNKNOWN, "none", "no rule holds")
    # The title says what it is, nearly in the rule's words; those are evidence of how it was decided.
    evidence = (f"decided by: {when}", *_evidence(s))
    return Explanation(code, confidence, _where(s), evidence, tuple(_excluded(s)), s.wrong.named if s.wrong else None)


def _where(s: Symptoms) -> str:
    if s.wrong:
        return s.wrong.sentence
    return s.refused or (f"{s.lost_hits} are missing." if s.lost_hits else "Every step is right this time.")


def _evidence(s: Symptoms) -> Iterator[str]:
    if s.error:
        yield f"relative error of the recurrent state in its first wrong layer, at offset 0: {s.error:.3g}, {_size(s.error)}"
    if s.fading:
        yield _became(s.fading)
    if s.wrong:
        yield f"the state is of {s.meant} tokens, {s.meant % CHUNK} modulo {CHUNK}"
    if s.kernels and s.kernels[0] != s.kernels[1]:
        yield f"kernel {s.kernels[0]}, and {s.kernels[1]} in the reference"
    if s.blank:
        yield f"the whole state is {s.blank}"
    if s.cast:
        yield f"every element is what {s.cast[1]} and the pool's cast give"
    yield from (f"the step's right inputs with {each.words} give its bits" for each in s.variants)
    if s.holds and (s.holds.position != s.meant or s.holds.foreign or s.holds.line != OWN):
        how = "bit for bit" if s.holds.exact else "by the float64 oracle's nearest state"
        whose = "its own path" if s.holds.line == OWN else s.holds.line
        yield f"it holds {s.holds.position} tokens of {whose} ({how}); {s.meant} are meant"
    if s.nearest:
        best = s.nearest[0]
        shape = ", transposed" if best.transposed else ""
        yield f"nearest oracle state: {best.line}, {best.position} tokens, {best.distance:.3g} away{shape}"
    if s.window:
        ends = (
            f"which the path has at {', '.join(map(str, s.window_ends))} tokens" if s.window_ends else "not on the path"
        )
        yield f"the first layer's convolution window holds tokens {', '.join(map(str, s.window))}, {ends}"
    if any(wrong for _, wrong, _ in s.kinds):
        parts = ", ".join(f"{kind} {wrong} of {every}" for kind, wrong, every in s.kinds)
        yield f"stored states that are wrong, by how they were written: {parts}"
    if s.vanishes:
        yield f"right without {', '.join(sorted(s.vanishes))}"
    if s.alone is False:
        yield "right without the other requests"
    if s.wrong and s.wrong.later:
        yield f"{s.wrong.later:.0%} of the later steps are wrong, too"


def _size(error: float) -> str:
    """What an error of this size may be (docs/statistics.md, Where it begins)."""
    if error <= ROUNDING:
        return "as large as one or two roundings to bf16"
    return "as large as a state: another state" if error >= OTHER else "more than rounding, less than another state"


ROUNDING, OTHER = 2.0**-7, 0.25
"""Two roundings to bf16 are 2^-8 each at most. A state of other tokens is off by its own size, one that lacks a token by the
share that this has; a quarter is a border for words."""


def _became(f: Fading) -> str:
    own, model = (f"{each.value:.3g} tokens" if each.value else "none" for each in (f.own, f.models))
    said = {
        True: "it fades as fast as the model forgets",
        False: "it outlives what the model forgets, so something adds to it",
        None: "too few tokens to tell whether something adds to it",
    }[f.fades]
    return (
        f"after {f.offsets[-1]} tokens {f.seen[-1]:.3g} of the error is left, where the layer's decays leave "
        f"{f.model[-1]:.3g}; half-life {own}, the model's {model}: {said}"
    )


def _excluded(s: Symptoms) -> Iterator[str]:
    yield from (f"{switch}: it fails without, too" for switch in sorted(s.stays))
    if s.alone:
        yield "other requests: it fails alone, too"
    if s.named:
        yield "the store: the state was right under its name"
    if s.op in (Op.COMMIT, Op.STORE, Op.LOAD):
        yield "the arithmetic: the state before its store is right"
    if s.op in (Op.COMPUTE, Op.SNAPSHOT) and not s.row_starts_elsewhere:
        yield "store and restore: what the step continues is right"
    if s.fades:
        yield "an error made again (rounding, arithmetic, attention KV, a forked context): it would outlive the decays"
    if s.fades is False:
        yield "one wrong state and nothing else: it would fade as fast as the model forgets"
    if s.recurrent and not s.conv:
        yield "the convolution: its window is right, byte for byte"
    if s.conv and not s.recurrent:
        yield "the recurrent state: it is right, bit for bit"
