"""From evidence to findings: each signature looks for one fault and stays silent about what it can't prove.

A signature is a function from :class:`Evidence` to a finding or None. Faults come first, lack of evidence last.
"""

from __future__ import annotations

from collections.abc import Callable

from replaycheck.schema.result import Finding

from .coverage import different_kernels, kernel_error, missed_hits, other_shard, too_few_traces, vacuous
from .evidence import Evidence
from .rounding import rounded_through_bf16
from .states import conv_differs, not_one_cast, other_position
from .unsaid import another_dtype, left_out, not_a_number, other_tokens

__all__ = ["SIGNATURES", "Evidence", "findings"]

Signature = Callable[[Evidence], Finding | None]

SIGNATURES: tuple[Signature, ...] = (
    rounded_through_bf16,
    not_one_cast,
    kernel_error,
    other_position,
    conv_differs,
    missed_hits,
    different_kernels,
    other_shard,
    vacuous,
    too_few_traces,
    another_dtype,
    not_a_number,
    left_out,
    other_tokens,
)


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """Every finding that the evidence proves, in the order of the codes."""
    found = [signature(evidence) for signature in SIGNATURES]
    return tuple(sorted((one for one in found if one is not None), key=lambda finding: finding.code))
