"""In which precision a run's log-probabilities were reported, where they are the subject's own numbers. No torch."""

from __future__ import annotations

import numpy as np

from replaycheck.gates.tables import Tables
from replaycheck.schema.semantics import LogprobSemantics
from replaycheck.stats.precision import detect

__all__ = ["with_precision"]

ENOUGH = 4096
"""Values that are looked at; a few dozen decide it."""


def with_precision(semantics: LogprobSemantics, tables: Tables) -> LogprobSemantics:
    """The same with the precision that the recorded values have, where the subject's own numbers were taken."""
    if semantics.precision is not None:
        return semantics
    values = np.empty(0)
    for block in tables.blocks("observations", ("logprob",)):
        column = block["logprob"].drop_null().to_numpy()
        values = np.concatenate([values, column[: ENOUGH - len(values)]])
        if len(values) == ENOUGH:
            break
    return semantics.model_copy(update={"precision": str(detect(values))})
