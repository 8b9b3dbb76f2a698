"""What arms said at each scored position: the OBSERVATIONS rows of recordings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from replaycheck.schema.tables import OBSERVATIONS

from .said import Said
from .scored import Scored, named, whole

__all__ = ["observations"]


def observations(arms: Sequence[Scored], said: Said, experiment: str = "forced") -> pa.Table:
    """The OBSERVATIONS rows of all arms, in key order. Log-probabilities are computed in float64 from the fp32 logits."""
    arms = [arm for arm in sorted(arms, key=lambda arm: arm.arm) if len(arm)]
    if not arms:
        return OBSERVATIONS.empty_table()
    rows = np.concatenate([said.row[arm.arm] for arm in arms])
    restores = [arm.restore for arm in arms]
    missing = [none for _, none in restores]
    best = said.best[rows]
    columns = {
        "trace": named([([turn.trace for turn in arm.turns], arm.sizes) for arm in arms]),
        "branch": whole([arm.spread([turn.branch for turn in arm.turns]).astype(np.int32) for arm in arms]),
        "turn": whole([arm.spread([turn.turn for turn in arm.turns]).astype(np.int32) for arm in arms]),
        "position": whole([arm.positions for arm in arms]),
        "role": named([([turn.role for turn in arm.turns], arm.sizes) for arm in arms]),
        "token": whole([arm.tokens for arm in arms]),
        "arm": named([([arm.arm], np.array([len(arm)])) for arm in arms]),
        "experiment": named([([experiment], np.array([len(rows)]))]),
        "logprob": pa.array(said.logprob[rows], from_pandas=True),
        "top1": pa.array(best, mask=best < 0),
        "top1_logprob": pa.array(said.best_logprob[rows], from_pandas=True),
        "margin": pa.array(said.margin[rows], from_pandas=True),
        "top20": said.top().take(rows),
        "logits_digest": said.digests().take(pa.array(rows)),
        "restore": whole([covered for covered, _ in restores], missing),
        "offset_from_restore": whole(
            [arm.positions - covered for arm, (covered, _) in zip(arms, restores, strict=True)], missing
        ),
        "cluster": named([([turn.cluster for turn in arm.turns], arm.sizes) for arm in arms]),
    }
    return pa.table([columns[field.name] for field in OBSERVATIONS], schema=OBSERVATIONS)
