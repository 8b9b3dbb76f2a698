"""What a log-probability of a run is, as its result records it and ``compare`` holds two runs to it."""

from __future__ import annotations

from replaycheck.schema.semantics import LogprobSemantics
from replaycheck.subjects.choose import LAB, find_subject
from replaycheck.subjects.protocol import Said

from .settings import Settings

__all__ = ["logprobs_of"]


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
