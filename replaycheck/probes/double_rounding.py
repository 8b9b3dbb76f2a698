"""Does a store round once? Two values that tell one cast from two, and real states against theory.

Theory: a bf16 has 8 significant bits and an fp16 has 11, so fp32 → bf16 → fp16 differs from fp32 → fp16 unless the value
lies within half an fp16 unit of a bf16: 7 of 8 elements differ, by 0 … 4 units, 2 in the mean. Subnormal fp16 (|x| < 2^-14)
has fewer bits and isn't counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from replaycheck.compare.casts import cast as reference_cast
from replaycheck.schema.arm import PoolDtype
from replaycheck.schema.result import ProbeResult
from replaycheck.subjects.lab.pool import TORCH_DTYPE, cast

Cast = Callable[[Tensor, torch.dtype], Tensor]

#: 1 + 2^-11 + 2^-23 is just over half-way to the next fp16, 1 + 2^-10; its bf16 is 1. (SGLang's kernel test uses it.)
VIA_BF16 = (PoolDtype.FP16, 1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-10)
#: 1 + 2^-8 + 2^-12 is just over half-way to the next bf16, 1 + 2^-7; its fp16 is 1 + 2^-8, a tie that goes to 1.
VIA_FP16 = (PoolDtype.BF16, 1 + 2.0**-8 + 2.0**-12, 1 + 2.0**-7)

SHARE, MEAN_ULPS, MAX_ULPS = 7 / 8, 2.0, 4
_TOLERANCE = 0.015
"""On the share: states of 65,536 elements had 0.8739 to 0.8752 (a binomial standard deviation is 1.3e-3 there, and 3.3e-3
for the 10,000 elements that are the least taken); 0.015 is 4.5 of the larger."""
_LEAST = 10_000


@dataclass(frozen=True)
class Distance:
    """How two fp16 roundings of the same states differ, over the normal elements."""

    elements: int
    share: float
    mean_ulps: float
    max_ulps: int


def distance(states: NDArray[np.float32]) -> Distance:
    """fp32 → bf16 → fp16 against fp32 → fp16, of states [...]."""
    with np.errstate(over="ignore"):
        direct = states.astype(np.float16)
        twice = reference_cast(states, PoolDtype.BF16).astype(np.float16)
    normal = (np.abs(states) > 2.0**-14) & np.isfinite(direct)
    ulps = np.abs(direct[normal].view(np.int16).astype(np.int64) - twice[normal].view(np.int16))
    if not ulps.size:
        return Distance(0, 0.0, 0.0, 0)
    return Distance(ulps.size, float(np.mean(ulps > 0)), float(np.mean(ulps)), int(ulps.max()))


def probe_double_rounding(states: NDArray[np.float32], store: Cast = cast) -> ProbeResult:
    """Judge the cast of the lab's stores.

    Args:
        states: fp32 accumulators of a real model, any shape.
    """
    # As a state [H, V, K]: a fault may look at heads.
    wrong = sum(
        float(store(torch.full((1, 1, 1), given), TORCH_DTYPE[pool])) != expected
        for pool, given, expected in (VIA_BF16, VIA_FP16)
    )
    elements = sum(_mismatches(states, pool, store) for pool in PoolDtype)
    found = distance(states)
    theory = found.elements < _LEAST or (abs(found.share - SHARE) < _TOLERANCE and found.max_ulps <= MAX_ULPS)
    mismatches = wrong + elements + (0 if theory else 1)
    return ProbeResult(
        name="double-rounding",
        verdict="pass" if mismatches == 0 else "fail",
        sentence=(
            f"Stores round {'once' if mismatches == 0 else 'more than once'}: {2 - wrong} of 2 probe values and "
            f"{3 * states.size - elements:,} of {3 * states.size:,} real elements agree with one direct cast. "
            f"A detour through bf16 would change {found.share:.1%} of the fp16 elements (theory {SHARE:.1%}), by "
            f"{found.mean_ulps:.2f} units in the mean (theory {MEAN_ULPS:.0f}) "
            f"and at most {found.max_ulps} (theory {MAX_ULPS})."
        ),
        values={
            "mismatches": mismatches,
            "probe_values_wrong": wrong,
            "elements_wrong": elements,
            "elements": states.size,
            "via_bf16_share": found.share,
            "via_bf16_mean_ulps": found.mean_ulps,
            "via_bf16_max_ulps": found.max_ulps,
        },
    )


def _mismatches(states: NDArray[np.float32], pool: PoolDtype, store: Cast) -> int:
    """Elements whose stored value isn't the direct cast, which numpy computes by itself."""
    stored = store(torch.from_numpy(states.copy()), TORCH_DTYPE[pool]).to(torch.float32).numpy()
    return int(np.count_nonzero(stored != reference_cast(states, pool)))
