"""What a log-probability of a run is, as its result records it and ``compare`` holds two runs to it."""

from __future__ import annotations

import numpy as np

from replaycheck.gates.tables import Tables
from replaycheck.schema.semantics import LogprobSemantics
from replaycheck.stats.precision import detect
from replaycheck.subjects.choose import LAB, find_subject
from replaycheck.subjects.protocol import Said

from .settings import Settings

__all__ = ["logprobs_of", "with_precision"]

ENOUGH = 4096
"""Values that are looked at for their precision; a few dozen decide it."""


def logprobs_of(settings: Settings) -> LogprobSemantics:
    """The lab's, or what the subject says of its own; the vocabulary is that of the traces."""
    vocabulary = settings.groups[0].vocabulary if settings.groups else None
    if settings.subject == LAB:
        return LogprobSemantics(vocabulary=vocabulary)
    found = find_subject(settings.subject, settings.options).describe()
    ours = LogprobSemantics(said=found.semantics, vocabulary=vocabulary)
    # From logits the softmax is ours; what else a subject shows went through its own.
    return (
        ours
        if found.said is Said.LOGITS
        else ours.model_copy(update={"softmax": "the subject's own", "precision": None})
    )


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
