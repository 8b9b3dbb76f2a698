"""What stands for each known fault: F1 to F70, the benign effects B-1 to B-8, and 52 public reports.

Names are faults of :mod:`replaycheck.faults.shipped` or clean variants of :mod:`replaycheck.faults.clean`. What has no
meaning in the lab says why. F-numbers are described in docs/faults.md; a report is named by its project and number.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BENIGN", "MODES", "REPORTS", "Covered"]


@dataclass(frozen=True)
class Covered:
    """``by``: faults and clean variants. ``why_not``: why there are none."""

    what: str
    by: tuple[str, ...] = ()
    why_not: str = ""


def _by(what: str, *names: str) -> Covered:
    return Covered(what, names)


def _not(what: str, why: str) -> Covered:
    return Covered(what, why_not=why)


MODES: dict[int, Covered] = {
    1: _by("bf16 h snapshot in an fp32 pool", "bf16-snapshot"),
    2: _by("fp16 pool via bf16", "via-bf16"),
    3: _by("bf16 pool via fp16", "via-fp16"),
    4: _by("fp16 overflow", "overflow"),
    5: _by("fp16 underflow or flush", "flushed"),
    6: _by("truncation instead of rounding", "truncated"),
    7: _by("state rounded at every chunk", "rounded-each-chunk"),
    8: _by("a rounding a step instead of a window", "rounded-each-step"),
    9: _by("correction record in bf16", "correction-bf16"),
    10: _by("beta rounded to bf16", "beta-bf16"),
    11: _by("log decay in bf16", "decay-bf16"),
    12: _by("A_log or dt_bias in bf16", "rates-bf16", "bias-bf16"),
    13: _by("approximate exponentials and roots (benign)", "approximate-functions"),
    14: _by("int8 checkpoint", "int8-checkpoint"),
    15: _by("norm of q and k: rounding or epsilon", "keys-bf16", "norm-epsilon", "norm-without-epsilon"),
    16: _by("epsilon of the output norm", "output-norm-epsilon"),
    17: _by("track chunk index off by one", "chunk-early", "chunk-late"),
    18: _by("aligned taken for unaligned", "aligned-as-interior"),
    19: _by("unaligned taken for aligned", "final-for-interior"),
    20: _by("snapshot never written", "never-written", "never-written-poisoned"),
    21: _by("wrong batch row of the snapshot", "rows-rotated"),
    22: _by("row offset without rounding up", "rows-floored"),
    23: _by("checkpoint a token late or early", "token-late", "token-early"),
    24: _by("tail after a restore skipped", "tail-skipped"),
    25: _by("attention's hit longer than the state", "cache-beyond-state"),
    26: _by("hit in the step that writes the state", "hit-before-write"),
    27: _by("chunk grid relative to the prefix (benign)", "budget"),
    28: _by("branching point lost", "cache-never-hits", "lost-checkpoint"),
    29: _by("start of the conv window", "conv-late", "conv-early", "window-one-late"),
    30: _by("conv window bleeds into another sequence", "conv-bleeds"),
    31: _by("state and conv of unlike positions", "conv-late", "chunk-early"),
    32: _by("state transposed", "transposed", "finals-transposed"),
    33: _by("order of heads over ranks", "heads-of-next-rank", "heads-turned"),
    34: _by("conv blocks cut as one axis", "conv-cut-as-one", "conv-moved-as-one", "conv-weight-cut-as-one"),
    35: _by("f_a sharded", "decay-input-halved"),
    36: _by("A_log, dt_bias of another shard", "rates-of-next-rank", "rates-of-next-head", "beta-replicated"),
    37: _by("state shared on a fork", "fork-shared", "fork-from-sibling"),
    38: _by("source evicted or overwritten before its copy", "source-evicted", "slot-reused"),
    39: _by("stale slot not cleared", "not-cleared", "clear-leaves-conv"),
    40: _by("slot in use given away", "stored-cleared", "evicted-still-hit", "freed-twice", "store-too-wide"),
    41: _by("preemption with a stale state", "preemption-stale", "swapped-from-elsewhere"),
    42: _by("double buffer mixed up", "buffers-swapped"),
    43: _by("stale track rows", "stale-track-row"),
    44: _by("null slot written or read", "null-slot-written", "null-slot-read", "null-pair-copied"),
    45: _by("decode snapshot at another multiple", "running-slot", "buffers-swapped"),
    46: _by("another tier loses conv or bits", "conv-not-moved", "copies-rounded", "layers-off-by-one"),
    47: _by("rollback to accepted ± 1", "kept-one-more", "kept-one-less", "commit-late"),
    48: _by("conv not rolled back", "conv-not-rolled-back"),
    49: _by("step without drafts shifts the extended window", "draftless-shift"),
    50: _by("conv offset ignores accepted drafts", "conv-offset-ignored"),
    51: _by("temporal state of another column", "first-column"),
    52: _by("boundary column without − 1", "boundary-column", "block-not-moved"),
    53: _by("boundary length off by one", "boundary-length"),
    54: _by("block smaller than a window", "block-under-window"),
    55: _by("records of another row", "records-of-sibling"),
    56: _by("key recorded elsewhere", "keys-after-norm", "keys-scaled", "keys-before-conv"),
    57: _by("own decay on the correction", "correction-decayed"),
    58: _by("commit twice or never", "committed-twice", "never-committed"),
    59: _by("commit of nothing, or to the null block", "nothing-kept-committed"),
    60: _by("ring cursor stale", "stale-ring"),
    61: _by("ring overflow", "ring-overflow"),
    62: _by("accepted counts in stale order", "counts-of-mates"),
    63: _by("beta not activated", "beta-raw"),
    64: _by("beta activated twice", "beta-twice"),
    65: _by("softplus and lower bound swapped", "decay-swapped"),
    66: _by("dt_bias dropped", "bias-dropped", "bias-not-loaded"),
    67: _by("scale twice or missing", "scale-twice", "scale-missing"),
    68: _by("exp and exp2 mixed", "exponent-domain"),
    69: _by("decay after the delta", "decay-last"),
    70: _by("convolution without SiLU, or of another width", "silu-missing", "conv-narrow", "conv-reversed"),
}

BENIGN: dict[str, Covered] = {
    "B-1": _by("small launches fuse the diagonal", "small-grid"),
    "B-2": _by("packed decode kernel from a batch of 8", "other-decode-kernel"),
    "B-3": _by("reference of a diagonal in the future", "reference-in-the-middle"),
    "B-4": _by("tiles of matrix products", "other-tiles"),
    "B-5": _by("another engine's kernel", "other-engine"),
    "B-6": _by("graph against eager: padded batches", "padded-batch"),
    "B-7": _by("order of sums over ranks", "two-ranks"),
    "B-8": _by("autotuning", "other-order-of-sums", "wide-sums"),
}

_NO_SERVER = "what a server reports of positions that it didn't compute; the lab computes every position it scores"

REPORTS: dict[str, Covered] = {
    "B01": _by("sglang PR 31474", "never-written", "never-written-poisoned"),
    "B04": _by("sglang issue 24221", "tier-copy-late", "hit-before-write"),
    "B06": _by("sglang PR 29973", "running-slot"),
    "B07": _by("sglang issue 38815", "position-late"),
    "B11": _by("sglang issue 38975", "beta-bf16"),
    "B12": _by("sglang PR 35821", "kept-one-more", "commit-late"),
    "B13": _by("sglang PR 30986", "load-aborted", "slot-reused"),
    "B14": _by("sglang PR 39862", "conv-not-moved"),
    "B17": _by("sglang issue 22935", "cache-never-hits", "lost-checkpoint"),
    "B19": _by("sglang PR 29633", "one-row-nan"),
    "B21": _by("vllm PR 34587", "label-by-count"),
    "B23": _by("vllm PR 52942", "first-column"),
    "B24": _by("vllm PR 51812", "gates-misaligned"),
    "B26": _by("vllm PR 53919", "counts-of-mates"),
    "B27": _by("vllm PR 50729", "shift-without-order"),
    "B35": _by("vllm issue 53084", "null-slot-read"),
    "B36": _by("vllm issue 55208", "conv-moved-as-one", "conv-cut-as-one"),
    "B38": _not(
        "vllm issue 52909", "a residual buffer of another layer is reused; the lab's network keeps no such buffers"
    ),
    "B42": _by("vllm issue 55524 (no defect)", "chunk-and-recurrent"),
    "B43": _by("vllm issue 43090 (no defect)", "cut-by-the-cache"),
    "B44": _by("vllm-metal issue 488", "preemption-stale"),
    "B45": _by("tpu-inference PR 2431", "not-cleared"),
    "B46": _by("tpu-inference PR 3412", "hit-without-restore"),
    "B49": _by("llama.cpp PR 28007", "cache-not-cropped", "cache-beyond-state"),
    "B51": _by("llama.cpp issue 29002", "rows-of-last-step"),
    "B53": _by("transformers PR 45513", "call-ignores-state"),
    "B54": _by("transformers issue 46032", "first-token-only"),
    "B57": _by("transformers PR 32677", "mask-dropped"),
    "B58": _by("transformers PR 47087", "mask-dropped"),
    "B61": _by("transformers issue 48947", "layers-off-by-one", "tier-copy-late"),
    "B62": _by("transformers PR 46588", "conv-bleeds"),
    "B64": _by("flash-linear-attention PR 1135", "out-of-bounds"),
    "B66": _by("mamba issue 683 (no defect)", "exact-recipe"),
    "B68": _by("mlx-lm PR 1254", "cache-beyond-state", "hit-before-write"),
    "B71": _by("mlx-vlm PR 1946", "mask-dropped"),
    "B72": _by("omlx PR 3066 (no defect)", "budget"),
    "B73": _by("vmlx-swift PR 426", "cache-beyond-state"),
    "B75": _by("atlas PR 156", "token-late", "evicts-newest"),
    "B76": _by("LMCache issue 4984", "label-by-count", "never-written"),
    "B78": _by("modular issue 6681", "hit-without-restore", "mates"),
    "B83": _by("tokenspeed PR 830", "cache-never-hits"),
    "B85": _by("hipfire PR 388", "int8-checkpoint", "rounded-each-chunk"),
    "B87": _by("FlashKDA PR 10", "series-inverse"),
    "B88": _by("imp PR 1503", "never-written-poisoned", "stale-ring"),
    "B89": _by("ATOM PR 1820", "transposed"),
    "B91": _by("llama-cpp-turboquant PR 352", "rolled-back-again"),
    "B92": _by("llama.cpp issue 21681", "restore-late"),
    "B97": _by("vllm issue 5543 (no defect)", "cut-by-the-cache"),
    "B101": _not("vllm PR 42245", _NO_SERVER),
    "B102": _not("strands-sglang issue 34", _NO_SERVER),
    "B104": _by("aiter issue 5151", "truncated"),
    "B105": _not("paz PR 415", "rotary keys in two dtypes; Kimi Linear's attention has no rotary positions"),
}
