"""What each fault shows in its first cell: onset, convolution windows, states, and on or off the chunk grid.

How to read them. A fault that enters a warm arm's arithmetic, weights or stores shows before any restore, in the first
answer; its restored conv windows then differ in later layers, whose inputs an earlier layer has spoilt. One of snapshots and
slots shows at the restore. "Later layers" never begins a fault; "first layer" is one of positions or slots, or of what comes
before the layer.
"""

from __future__ import annotations

from ..signature import Conv, Grid, Needs, Onset, Signature, State

__all__ = ["EXPECTED"]

_BEFORE, _RESTORE, _LATER, _NONE = Onset.BEFORE, Onset.RESTORE, Onset.LATER, Onset.NONE
_CLEAN, _SHIFTED, _FOLLOWS = Conv.CLEAN, Conv.SHIFTED, Conv.FOLLOWS
_SAME, _ROUNDING, _PART, _OTHER = State.CLEAN, State.ROUNDING, State.PART, State.OTHER
_OFF, _ON, _QUIET = Grid.OFF, Grid.ON, Grid.NONE

EVERY_STORE = Signature(_BEFORE, _FOLLOWS, _ROUNDING, _OFF, Needs.NOTHING)
"""Each store or gate is a little wrong."""
ARITHMETIC = Signature(_BEFORE, _FOLLOWS, _OTHER, _OFF, Needs.NOTHING)
"""Every token is computed otherwise."""
SMALLER = Signature(_BEFORE, _FOLLOWS, _PART, _OFF, Needs.NOTHING)
OTHER_STATE = Signature(_RESTORE, _CLEAN, _OTHER, _OFF, Needs.HIT)
"""The recurrent state is another, its conv window is right."""
OTHER_SLOT = Signature(_RESTORE, _SHIFTED, _OTHER, _OFF, Needs.HIT)
"""Both parts of a slot are another's, or of another position."""
CONV_ALONE = Signature(_RESTORE, _SHIFTED, _SAME, _OFF, Needs.HIT)
PLAN_ALONE = Signature(_NONE, _CLEAN, _SAME, _QUIET, Needs.HIT)
"""The plan is wrong and no output depends on it here."""
NO_RESTORE = Signature(_BEFORE, _CLEAN, _SAME, _QUIET, Needs.FORK)


def _with(base: Signature, needs: Needs) -> Signature:
    return Signature(base.onset, base.conv, base.state, base.grid, needs)


EXPECTED: dict[str, Signature] = {
    # precision
    "bf16-snapshot": Signature(_RESTORE, _CLEAN, _ROUNDING, _OFF, Needs.HIT),
    "via-bf16": EVERY_STORE,
    "via-fp16": EVERY_STORE,
    "overflow": Signature(_BEFORE, _FOLLOWS, State.NOT_FINITE, _OFF, Needs.NOTHING),
    "flushed": EVERY_STORE,
    "truncated": SMALLER,
    "rounded-each-chunk": Signature(_BEFORE, _CLEAN, _ROUNDING, _OFF, Needs.NOTHING),
    "rounded-each-step": _with(EVERY_STORE, Needs.WINDOW),
    "beta-bf16": EVERY_STORE,
    "decay-bf16": EVERY_STORE,
    "rates-bf16": EVERY_STORE,
    "bias-bf16": EVERY_STORE,
    "int8-checkpoint": SMALLER,
    "keys-bf16": EVERY_STORE,
    "output-norm-epsilon": Signature(_BEFORE, _SHIFTED, _ROUNDING, _OFF, Needs.NOTHING),
    "copies-rounded": Signature(_LATER, _CLEAN, _ROUNDING, _OFF, Needs.TIER),
    # position
    "chunk-early": OTHER_STATE,
    "chunk-late": OTHER_STATE,
    "position-late": OTHER_SLOT,
    "final-for-interior": OTHER_SLOT,
    "aligned-as-interior": Signature(_RESTORE, _SHIFTED, _OTHER, _ON, Needs.HIT),
    "never-written": OTHER_STATE,
    "rows-rotated": _with(OTHER_STATE, Needs.BATCH),
    "rows-floored": _with(OTHER_STATE, Needs.BATCH),
    "token-late": OTHER_STATE,
    "token-early": OTHER_STATE,
    "tail-skipped": Signature(_LATER, _CLEAN, _SAME, _QUIET, Needs.HIT),
    "cache-beyond-state": OTHER_SLOT,
    "hit-before-write": OTHER_SLOT,
    "conv-late": CONV_ALONE,
    "conv-early": CONV_ALONE,
    "conv-bleeds": _with(SMALLER, Needs.REUSE),
    "restore-late": OTHER_SLOT,
    "running-slot": OTHER_SLOT,
    "label-by-count": SMALLER,
    "block-not-moved": OTHER_SLOT,
    "transposed": OTHER_STATE,
    "finals-transposed": ARITHMETIC,
    "mask-dropped": Signature(_BEFORE, _SHIFTED, _OTHER, _OFF, Needs.NOTHING),
    "tail-kernel": Signature(_LATER, _FOLLOWS, _ROUNDING, _OFF, Needs.HIT),
    # ownership
    "fork-shared": NO_RESTORE,
    "fork-from-sibling": NO_RESTORE,
    "slot-reused": _with(OTHER_SLOT, Needs.REUSE),
    "evicted-still-hit": _with(PLAN_ALONE, Needs.REUSE),
    "not-cleared": _with(SMALLER, Needs.REUSE),
    "hit-without-restore": _with(OTHER_SLOT, Needs.REUSE),
    "stored-cleared": OTHER_SLOT,
    "freed-twice": PLAN_ALONE,
    "preemption-stale": _with(NO_RESTORE, Needs.PREEMPTION),
    "swapped-from-elsewhere": _with(NO_RESTORE, Needs.PREEMPTION),
    "buffers-swapped": OTHER_SLOT,
    "stale-track-row": _with(OTHER_SLOT, Needs.BATCH),
    "null-slot-written": PLAN_ALONE,
    "conv-not-moved": _with(CONV_ALONE, Needs.TIER),
    "tier-copy-late": _with(OTHER_SLOT, Needs.TIER),
    "layers-off-by-one": _with(OTHER_STATE, Needs.TIER),
    "store-too-wide": OTHER_STATE,
    "clear-leaves-conv": Signature(_BEFORE, _FOLLOWS, State.NOT_FINITE, _OFF, Needs.REUSE),
    "lost-checkpoint": Signature(_LATER, _CLEAN, _SAME, _QUIET, Needs.HIT),
    "call-ignores-state": Signature(_LATER, _FOLLOWS, _OTHER, _OFF, Needs.HIT),
    "first-token-only": Signature(_LATER, _FOLLOWS, _PART, _OFF, Needs.HIT),
    # speculation
    "commit-late": _with(SMALLER, Needs.REJECTION),
    "kept-one-more": _with(ARITHMETIC, Needs.REJECTION),
    "kept-one-less": Signature(_BEFORE, _FOLLOWS, State.LARGE, _OFF, Needs.WINDOW),
    "conv-not-rolled-back": _with(ARITHMETIC, Needs.REJECTION),
    "draftless-shift": _with(SMALLER, Needs.WINDOW),
    "conv-offset-ignored": _with(ARITHMETIC, Needs.WINDOW),
    "first-column": _with(SMALLER, Needs.WINDOW),
    "cache-not-cropped": _with(SMALLER, Needs.REJECTION),
    "counts-of-mates": Signature(_BEFORE, _SHIFTED, _OTHER, _OFF, Needs.BATCH),
    "stale-ring": _with(OTHER_STATE, Needs.WINDOW),
    "rolled-back-again": _with(ARITHMETIC, Needs.REJECTION),
    # activation
    "beta-raw": ARITHMETIC,
    "beta-twice": ARITHMETIC,
    "decay-swapped": ARITHMETIC,
    "bias-dropped": ARITHMETIC,
    "bias-not-loaded": ARITHMETIC,
    "exponent-domain": SMALLER,
    "decay-last": ARITHMETIC,
    "silu-missing": ARITHMETIC,
    "conv-narrow": ARITHMETIC,
    "conv-reversed": ARITHMETIC,
    "gates-misaligned": _with(ARITHMETIC, Needs.BATCH),
    "rows-of-last-step": _with(NO_RESTORE, Needs.BATCH),
    "out-of-bounds": Signature(_BEFORE, _FOLLOWS, State.NOT_FINITE, _OFF, Needs.NOTHING),
    "one-row-nan": Signature(_RESTORE, _CLEAN, _SAME, _QUIET, Needs.HIT),
    # ranks
    "beta-replicated": _with(SMALLER, Needs.RANKS),
    "heads-of-next-rank": _with(OTHER_STATE, Needs.RANKS),
    "heads-turned": OTHER_STATE,
    "conv-cut-as-one": Signature(_NONE, _SHIFTED, _SAME, _OFF, Needs.RANKS),
    "conv-moved-as-one": _with(CONV_ALONE, Needs.RANKS),
    "conv-weight-cut-as-one": _with(ARITHMETIC, Needs.RANKS),
    "decay-input-halved": Signature(_BEFORE, _FOLLOWS, State.LARGE, _OFF, Needs.NOTHING),
    "rates-of-next-rank": _with(ARITHMETIC, Needs.RANKS),
    "rates-of-next-head": ARITHMETIC,
}
