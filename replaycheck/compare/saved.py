"""Pairs from two saved recordings: what ``compare A B`` does without logits, torch or a model.

Equality of bits is that of the logits' digests; KL is null, since the full distribution wasn't kept.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from replaycheck.errors import UsageError
from replaycheck.schema.frames import empty_frame, to_arrow, to_frame

from .free import shared_by_rows

__all__ = ["pair_saved"]

_KEY = ["experiment", "trace", "branch", "turn", "position"]
_KEPT = [*_KEY, "cluster", "role", "token", "logprob", "top1", "margin", "logits_digest", "offset_from_restore"]


def pair_saved(cell: str, reference: pd.DataFrame, candidate: pd.DataFrame) -> pd.DataFrame:
    """PAIRS rows of the positions that both OBSERVATIONS frames hold, each frame of one arm; of a free run as far as its
    prefix is known to be shared.

    Raises :class:`UsageError` if the same position was scored on different tokens: other traces, or another vocabulary.
    """
    both = reference[_KEPT].merge(candidate[_KEPT], on=_KEY, suffixes=("_a", "_b"), validate="one_to_one")
    if both.empty:
        return empty_frame("pairs")
    _refuse_other_tokens(cell, both)
    both = both[shared_by_rows(both)].reset_index(drop=True)
    digest_equal = _equal(both)
    top_a, top_b = (both[name].fillna(-1).to_numpy(np.int32) for name in ("top1_a", "top1_b"))
    columns = {
        **{name: both[name] for name in _KEY},
        "cell": [cell] * len(both),
        "cluster": both["cluster_b"],
        "role": both["role_b"],
        "dlogp": both["logprob_b"] - both["logprob_a"],
        "kl": np.full(len(both), np.nan),
        "flip": pd.Series(top_a != top_b, dtype="boolean").mask(_not_seen(both), pd.NA),
        "margin": both["margin_a"],
        "bits_equal": digest_equal,
        "offset_from_restore": both["offset_from_restore_b"],
    }
    return to_frame(to_arrow("pairs", columns))


def _equal(both: pd.DataFrame) -> pd.Series:
    """Whether logits have the same bits; null where a subject showed none, unless what it said differs."""
    shown = both["logits_digest_a"].notna() & both["logits_digest_b"].notna()
    equal = (both["logits_digest_a"] == both["logits_digest_b"]).astype("boolean")
    differ = both["logprob_a"].notna() & both["logprob_b"].notna() & (both["logprob_a"] != both["logprob_b"])
    return equal.mask(~shown, pd.NA).mask(~shown & differ, False)


def _not_seen(both: pd.DataFrame) -> pd.Series:
    """Where a subject without logits didn't say its most likely token in one of the runs. Logits without one hold a NaN."""
    shown = both["logits_digest_a"].notna() & both["logits_digest_b"].notna()
    return ~shown & (both["top1_a"].isna() | both["top1_b"].isna())


def _refuse_other_tokens(cell: str, both: pd.DataFrame) -> None:
    """In a free run the first differing token is a result; what was forced must be the same."""
    other = both[(both["token_a"] != both["token_b"]) & (both["experiment"] == "forced")]
    if len(other):
        row = other.iloc[0]
        raise UsageError(
            f"{cell!r}: trace {row['trace']!r}, position {row['position']} was scored on token {row['token_a']} in one "
            f"run and {row['token_b']} in the other; compare runs of the same traces and vocabulary"
        )
