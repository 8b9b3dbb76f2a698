"""The classifier as a table: what must be seen for a code, most specific first. The first rule that holds names the code.

A rule is certain where the bits prove it, and likely where other causes that nobody thought of could look the same. What no
rule explains stays unknown (RC903): a wrong name is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from replaycheck.schema.arm import CHUNK, PoolDtype

from .lines import BEGUN, DRAFTS, PADDED, SKIPPED, TWICE
from .switches import Switch
from .symptoms import OWN, Symptoms
from .trail import Op
from .windows import NOTHING, UNKNOWN

__all__ = ["RULES", "Confidence", "Rule"]

Confidence = Literal["certain", "likely", "none"]
BF16_RMS: Final = 1.66e-3
STORED = (Op.STORE, Op.COMMIT, Op.COPY, Op.LOAD)
READ = (Op.COPY, Op.LOAD)
ONE_ROUNDING: Final = 2.0**-7
"""Relative error that one or two roundings to bf16 can give a state: at most 2^-8 each."""


@dataclass(frozen=True)
class Rule:
    """``when``: the condition in words. holds: the condition."""

    code: str
    confidence: Confidence
    when: str
    holds: Callable[[Symptoms], bool]


def _needs(s: Symptoms, switch: Switch) -> bool:
    return switch in s.vanishes


def _variant(s: Symptoms) -> str | None:
    """The one code that all explaining variants have."""
    codes = {each.code for each in s.variants}
    return next(iter(codes)) if len(codes) == 1 else None


def _away(s: Symptoms) -> int | None:
    """Tokens that the state is away from where it should be, on its own path or on one that continues it."""
    if s.holds is None or s.holds.foreign or not s.recurrent:
        return None
    return s.holds.position - s.meant


def _elsewhere(s: Symptoms) -> bool:
    return _away(s) not in (None, 0)


def _foreign(s: Symptoms) -> bool:
    return (
        s.recurrent
        and s.holds is not None
        and s.holds.foreign
        and s.holds.line not in (BEGUN, DRAFTS, TWICE, SKIPPED, PADDED)
    )


def _known(s: Symptoms) -> bool:
    """Bit for bit a state that was stored under another name: another one was copied, and the copy garbled nothing."""
    return s.holds is not None and s.holds.exact and (s.holds.position != s.meant or s.holds.line != OWN)


def _drafts(s: Symptoms) -> bool:
    return s.holds is not None and s.holds.line == DRAFTS


def _conv_only(s: Symptoms) -> bool:
    return s.conv and not s.recurrent


def _cast(code: str) -> Rule:
    return Rule(code, "certain", "a cast gives the stored bits", lambda s: s.cast is not None and s.cast[0] == code)


def _variants(code: str) -> Rule:
    return Rule(code, "certain", "this arithmetic gives the bits, on right inputs", lambda s: _variant(s) == code)


RULES: Final[tuple[Rule, ...]] = (
    Rule("RC904", "certain", "the same run, twice, goes wrong at other steps", lambda s: not s.repeats),
    # What the plan of a row says.
    Rule(
        "RC601",
        "certain",
        "the wrong step ran another kernel",
        lambda s: s.kernels is not None and s.kernels[0] != s.kernels[1],
    ),
    Rule(
        "RC301",
        "certain",
        "a hit is missing and the row begins at token 0",
        lambda s: s.lost_hits > 0 and s.from_nothing,
    ),
    Rule("RC301", "certain", "a hit is missing and every step is right", lambda s: s.lost_hits > 0 and s.wrong is None),
    Rule(
        "RC207",
        "likely",
        "the row begins at another token than the reference's",
        lambda s: s.row_starts_elsewhere and not s.from_nothing,
    ),
    # What the failure needs, where that alone decides.
    Rule("RC603", "certain", "right without padding, and the state holds pads", lambda s: _needs(s, Switch.PADDING)),
    Rule("RC510", "certain", "the reference's heads in another order", lambda s: bool(s.order) or _permuted(s)),
    Rule("RC604", "likely", "right on one rank", lambda s: _needs(s, Switch.RANKS)),
    Rule(
        "RC309",
        "certain",
        "right when stored, right without the tier, and its copy isn't",
        lambda s: _needs(s, Switch.TIER) and s.named is True and s.op in READ,
    ),
    Rule(
        "RC313",
        "certain",
        "right before a copy, and not byte for byte what it was after it",
        lambda s: s.op is Op.COPY and (s.cast is not None or s.copied is False) and not _conv_only(s) and not _known(s),
    ),
    # What the bits say.
    Rule("RC509", "certain", "the reference's state with its axes exchanged", lambda s: s.transposed),
    *(_cast(code) for code in ("RC101", "RC103", "RC104", "RC106", "RC107")),
    Rule("RC105", "certain", "few even levels", lambda s: s.quantised and s.error > 0),
    *(_variants(code) for code in ("RC501", "RC502", "RC503", "RC504", "RC505", "RC506", "RC507", "RC508", "RC513")),
    *(_variants(code) for code in ("RC207", "RC310", "RC311")),
    *(_variants(code) for code in ("RC111", "RC112", "RC113", "RC114", "RC604")),
    Rule(
        "RC109",
        "certain",
        "not finite, from finite inputs",
        lambda s: not s.finite and s.inputs_finite and s.op is Op.COMPUTE,
    ),
    Rule(
        "RC512",
        "likely",
        "the first layer's inputs are no token's, in a call on a right state",
        lambda s: s.op is Op.COMPUTE and bool(s.window) and set(s.window) <= {UNKNOWN, NOTHING} and s.recurrent,
    ),
    Rule("RC307", "likely", "a step of the plan uses the null slot", lambda s: s.null_slot),
    Rule("RC408", "certain", "a window, and attention alone holds more", lambda s: _round_window(s) and _pages_only(s)),
    Rule(
        "RC207", "certain", "attention and the recurrent state disagree on how much was read", lambda s: _pages_only(s)
    ),
    # Nothing where a state should be.
    Rule("RC309", "likely", "no state, and right without the tier", lambda s: _nothing(s) and _needs(s, Switch.TIER)),
    Rule(
        "RC308",
        "likely",
        "no state, and right without preemption",
        lambda s: _nothing(s) and _needs(s, Switch.PREEMPTION),
    ),
    Rule(
        "RC306",
        "likely",
        "blank in its own slot, and it was right when stored",
        lambda s: bool(s.blank) and s.named is True and s.op is Op.COPY and not s.slot_changed,
    ),
    Rule(
        "RC311",
        "likely",
        "zero under a hit, and it was right when stored",
        lambda s: s.blank == "zero" and s.named is True,
    ),
    Rule("RC302", "likely", "nothing where a state was stored", lambda s: _nothing(s) and not _round_window(s)),
    Rule(
        "RC108",
        "likely",
        "cut at other tokens, and right in an fp32 pool, where a cut costs nothing",
        lambda s: (
            s.other_cuts and not s.row_starts_elsewhere and _needs(s, Switch.REDUCED) and s.error < 4 * ONE_ROUNDING
        ),
    ),
    Rule(
        "RC311",
        "certain",
        "the call began from nothing, whatever it was given",
        lambda s: s.op is Op.COMPUTE and s.holds is not None and s.holds.line == BEGUN,
    ),
    # Speculation.
    Rule("RC404", "likely", "right alone and without windows", lambda s: _round_window(s) and _needs(s, Switch.BATCH)),
    Rule("RC402", "likely", "a window's convolution alone", lambda s: _round_window(s) and _conv_only(s)),
    Rule(
        "RC405",
        "likely",
        "a state inside a window, and the window's own is right",
        lambda s: _round_window(s) and s.op in (Op.SNAPSHOT, Op.COMMIT),
    ),
    Rule(
        "RC403",
        "likely",
        "a window's tokens twice or not at all, whatever was accepted",
        lambda s: _round_window(s) and s.holds is not None and s.holds.line in (TWICE, SKIPPED),
    ),
    Rule(
        "RC401",
        "certain",
        "the state after another number of the window's tokens",
        lambda s: _round_window(s) and (_drafts(s) or _elsewhere(s)),
    ),
    Rule("RC407", "likely", "a window's rebuild, at no token of it", lambda s: _round_window(s) and s.op is Op.COMPUTE),
    # Events.
    Rule("RC309", "likely", "right without the tier", lambda s: _needs(s, Switch.TIER)),
    Rule("RC308", "likely", "right without preemption", lambda s: _needs(s, Switch.PREEMPTION)),
    Rule("RC305", "likely", "right without forks, and a sibling's tokens came in later", lambda s: _shared(s)),
    Rule(
        "RC306",
        "certain",
        "right when stored, and its own slot holds something else",
        lambda s: (
            s.op in READ
            and s.named is True
            and s.brought
            and not s.slot_changed
            and s.copied is not False
            and s.recurrent
        ),
    ),
    Rule(
        "RC306",
        "likely",
        "right before its store, and another row's store left its own state here, too",
        lambda s: s.op is Op.COMMIT and s.doubled and s.named_live,
    ),
    Rule("RC303", "likely", "another conversation's tokens", _foreign),
    # Where the state is from.
    Rule(
        "RC304",
        "certain",
        "a request without a hit doesn't begin with the empty state",
        lambda s: s.op is Op.LOAD and s.meant == 0 and s.first_load,
    ),
    Rule(
        "RC604",
        "likely",
        "the convolution's values in other places, with several ranks",
        lambda s: _conv_only(s) and s.shuffled and s.ranks > 1,
    ),
    Rule(
        "RC310", "likely", "the convolution is empty and the state isn't", lambda s: _conv_only(s) and _empty_window(s)
    ),
    Rule(
        "RC206",
        "certain",
        "the convolution ends at another token of the path",
        lambda s: _conv_only(s) and bool(s.window_ends),
    ),
    Rule(
        "RC310",
        "likely",
        "right when stored, and one part isn't after the copy",
        lambda s: _conv_only(s) and s.op in READ and s.named is True,
    ),
    Rule("RC202", "likely", "the convolution alone", _conv_only),
    Rule("RC606", "likely", "right without batch mates", lambda s: _needs(s, Switch.BATCH)),
    Rule(
        "RC207",
        "certain",
        "a call left the state of another number of tokens",
        lambda s: _elsewhere(s) and s.op is Op.COMPUTE and not s.verify,
    ),
    Rule(
        "RC205",
        "certain",
        "the state after the whole call",
        lambda s: (
            _elsewhere(s) and s.op in (Op.COMMIT, Op.COPY) and s.holds is not None and s.holds.position == s.call_end
        ),
    ),
    Rule("RC306", "likely", "its slot was written after it had its name", lambda s: _elsewhere(s) and s.written_late),
    Rule("RC203", "certain", "whole chunks away", lambda s: _elsewhere(s) and (_away(s) or 0) % CHUNK == 0),
    Rule("RC204", "certain", "a few tokens away", lambda s: _elsewhere(s) and abs(_away(s) or 0) < CHUNK // 2),
    Rule("RC201", "certain", "another position", _elsewhere),
    Rule("RC312", "likely", "later layers alone, in a state that was stored", lambda s: s.op in STORED and s.layer > 0),
    # Rounding that no single cast explains.
    Rule(
        "RC108",
        "likely",
        "a computed state has no more bits than the pool",
        lambda s: s.rounded_more and 0 < s.error < ONE_ROUNDING and s.op is Op.COMPUTE,
    ),
    Rule(
        "RC101",
        "likely",
        "an error the size of one rounding to bf16, in a store to a wider pool",
        lambda s: s.op in (Op.STORE, Op.COMMIT) and s.pool is not PoolDtype.BF16 and _one_bf16(s),
    ),
    Rule(
        "RC102",
        "likely",
        "an error of a store",
        lambda s: s.op in (Op.STORE, Op.COMMIT) and 0 < s.error < 4 * ONE_ROUNDING,
    ),
    # Others.
    Rule("RC605", "likely", "right alone", lambda s: s.alone is False and s.op is Op.COMPUTE),
    # Arithmetic.
    Rule(
        "RC511",
        "likely",
        "right inputs, wrong result, in every trace and call",
        lambda s: s.op is Op.COMPUTE and s.recurrent and not s.verify and not _once(s) and s.share in (None, 1.0),
    ),
)


def _one_bf16(s: Symptoms) -> bool:
    """One rounding is 1.66e-3 in the mean of squares (measured, and so for even mantissas); a quarter more or less.

    Quantising to 255 levels and cutting low bits lie above, at 3.3e-3 and more. Whether the error fades says nothing here: a
    bad cast errs again at each store.
    """
    return 0.75 * BF16_RMS <= s.error <= 1.25 * BF16_RMS


def _once(s: Symptoms) -> bool:
    """Later calls of the same kernel added nothing, so its arithmetic is right and one call went wrong."""
    return s.fading is not None and s.fading.calls > 0 and s.fades is True


def _permuted(s: Symptoms) -> bool:
    return bool(s.nearest) and s.nearest[0].permuted and s.nearest[0].distance < ONE_ROUNDING


def _nothing(s: Symptoms) -> bool:
    """No state: the lab refused to read a slot, or what was read is blank where it shouldn't be."""
    return (bool(s.refused) and s.wrong is None) or (bool(s.blank) and s.recurrent and s.op in (*STORED, Op.SNAPSHOT))


def _pages_only(s: Symptoms) -> bool:
    return s.pages != 0 and not s.recurrent and not s.conv


def _round_window(s: Symptoms) -> bool:
    return _needs(s, Switch.SPECULATION) or _needs(s, Switch.REJECTION)


def _shared(s: Symptoms) -> bool:
    return _needs(s, Switch.FORK) and s.op is Op.LOAD and not s.first_load


def _empty_window(s: Symptoms) -> bool:
    return bool(s.window) and set(s.window) == {NOTHING}
