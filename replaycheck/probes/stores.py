"""What a kernel writes: one direct cast into each pool, nothing into other slots and rows, and fp16 as IEEE has it.

Where the engine's own in-place call is there, it is probed; other kernels return fp32 states, which their caller stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs, KdaOutput
from replaycheck_kernels.error_model import predict
from replaycheck_kernels.precision import spacing
from replaycheck_kernels.recipe import EXACT

from .answer import Answer, CannotProbe, Trial, agreement
from .difference import Difference, difference
from .packing import poisoned, taken
from .pools import PRECISION, in_place, make_pool, pool_name
from .subject import Case, Decays, Subject, words

_BITS = {torch.float32: 23, torch.bfloat16: 7, torch.float16: 10}
_HALF = 0.5
"""Chance gives 2^-13 at most, and a rounded state everything; small integers and zeros may fit in between."""


def stores(subject: Subject) -> Answer:
    """A state stored in each pool dtype is one direct cast of the fp32 accumulator."""
    shares: dict[str, tuple[float, float, str]] = {}
    for case, dtype in _stored_cases(subject):
        if rounded := _rounded(subject.run(case).final):
            return Answer("broken", rounded)
        gap, stored = _stored_against_cast(subject, case, dtype)
        if gap is None:
            continue
        bound = _on_boundary(subject, dtype)
        steps = gap_in_units(stored[0], stored[1], dtype)
        example = f"{case.name}, {pool_name(dtype)} pool, {words(case.inputs.lengths())}: {gap.text()}"
        found = (gap.differing / gap.elements, bound, example)
        shares[pool_name(dtype)] = max(found, shares.get(pool_name(dtype), found))
        if steps > 1 or gap.differing > max(3, bound * gap.elements):
            count = f"{gap.differing} elements aren't one cast of the accumulator, by {steps:g} ulp"
            sentence = f"{pool_name(dtype)} pool: {count}"
            return Answer("broken", sentence, gap.differing / gap.elements, bound, example)
    pools = ", ".join(map(pool_name, subject.found.can.pool_dtypes))
    if not shares:
        return Answer("exact", f"one direct cast into {pools}")
    name, (share, bound, example) = max(shares.items(), key=lambda item: item[1][0])
    sentence = (
        f"one cast into {pools}, but for {share:.2g} of the elements in {name}: the fp32 sums ran in another order"
    )
    return Answer("noise", sentence, share, bound, example)


def _stored_against_cast(
    subject: Subject, case: Case, dtype: torch.dtype
) -> tuple[Difference | None, tuple[Tensor, Tensor]]:
    """The pool's bytes, and the final states of the same call in fp32, cast."""
    first = case.initial.to(dtype)
    slots, pool = make_pool(subject, first, dtype)
    in_place(subject, case, pool, slots)
    wanted = subject.run(case.begun(first.to(case.initial.dtype))).final.to(dtype)
    return difference("state", pool[slots], wanted), (pool[slots], wanted)


def _stored_cases(subject: Subject) -> Iterator[tuple[Case, torch.dtype]]:
    for decay in subject.several():
        case = _short(subject, decay)
        yield from ((case, dtype) for dtype in subject.found.can.pool_dtypes)


def _short(subject: Subject, decay: Decays | None = None) -> Case:
    """A recurrent call on a pool rounds at each token, so it gets one token."""
    lengths = subject.sizes.lengths if subject.form == "chunk" else (1,) * len(subject.sizes.lengths)
    return subject.case(lengths, decay)


def gap_in_units(found: Tensor, expected: Tensor, dtype: torch.dtype) -> float:
    """Largest difference in units in the last place of the pool."""
    a, b = found.double(), expected.double()
    gap = (a - b).abs() / spacing(torch.maximum(a.abs(), b.abs()), PRECISION[dtype])
    return float(torch.where(a == b, 0.0, gap).nan_to_num(nan=torch.inf).max())


def _on_boundary(subject: Subject, dtype: torch.dtype) -> float:
    """Share of elements so near a rounding boundary that another order of fp32 sums may move them.

    Two fp32 results δ apart round differently where a boundary lies between them: a share of δ over the unit, both
    relative. δ is twice what the exact recipe predicts, the unit at least 2^-(bits + 1). In fp32 itself every element may.
    """
    if dtype is torch.float32:
        return 1.0
    return 2 * predict(EXACT, "recurrent", subject.sizes.key, 0.0).state * 2.0 ** (_BITS[dtype] + 1)


def _rounded(final: Tensor) -> str | None:
    """A final state is an accumulator: by chance an element of it fits bf16 once in 2^16, fp16 once in 2^13."""
    for dtype in (torch.bfloat16, torch.float16):
        share = float((final.to(dtype).to(final.dtype) == final).double().mean())
        if share > _HALF:
            return (
                f"{share:.0%} of the elements of its final states fit {pool_name(dtype)}: they aren't fp32 accumulators"
            )
    return None


def untouched(subject: Subject) -> Answer:
    """NaN in other slots and in another sequence: slots keep it, results of the others don't get it; arguments stay."""
    case = subject.case(subject.sizes.lengths)
    before = replace(case, initial=case.initial.clone(), inputs=_copy(case))
    clean = subject.run(case)
    for name in ("q", "k", "v", "a", "b"):
        if gap := difference(name, getattr(case.inputs, name), getattr(before.inputs, name)):
            return Answer("broken", f"the call wrote to its argument {name}", example=gap.text())
    if gap := difference("initial", case.initial, before.initial):
        return Answer("broken", "the call wrote to its initial states", example=gap.text())
    return _slots_kept(subject) or agreement(
        _beside_nan(subject, case, clean), "slots and arguments untouched; results beside a sequence of NaN"
    )


def _copy(case: Case) -> KdaInputs:
    x = case.inputs
    return replace(x, q=x.q.clone(), k=x.k.clone(), v=x.v.clone(), a=x.a.clone(), b=x.b.clone())


def _slots_kept(subject: Subject) -> Answer | None:
    case = _short(subject)
    for dtype in subject.found.can.pool_dtypes:
        slots, pool = make_pool(subject, case.initial.to(dtype), dtype)
        in_place(subject, case, pool, slots)
        others = [slot for slot in range(len(pool)) if slot not in slots]
        kept = torch.full_like(pool[others], torch.nan)
        if gap := difference("slot", pool[others], kept):
            slot = others[gap.worst[0]]
            where = f"{pool_name(dtype)} pool, {words(case.inputs.lengths())}, slots {slots} given"
            return Answer(
                "broken", f"the call wrote to slot {slot}, which isn't its own", example=f"{where}: {gap.text()}"
            )
    return None


def _beside_nan(subject: Subject, case: Case, clean: KdaOutput) -> Iterator[Trial]:
    count = len(subject.sizes.lengths)
    for bad in range(count):
        got = subject.run(poisoned(case, bad))
        for good in (r for r in range(count) if r != bad):
            where = f"{words(subject.sizes.lengths)}, NaN in sequence {bad}, result of {good}"
            yield Trial(where, taken(got, case, good), taken(clean, case, good), subject.predicted(case))


def fp16_range(subject: Subject) -> Answer:
    """A state above 65,504 stored as fp16 is infinite, one under 2^-14 keeps its subnormal bits."""
    if torch.float16 not in subject.found.can.pool_dtypes:
        raise CannotProbe("it has no fp16 pool")
    case = _extreme(subject)
    slots, pool = make_pool(subject, case.initial.half(), torch.float16)
    in_place(subject, case, pool, slots)
    final = subject.run(case).final
    wanted, stored = final.half(), pool[slots]
    steps = gap_in_units(stored, wanted, torch.float16) if not bool(wanted.isinf().all()) else 0.0
    counts = f"{int(wanted.isinf().sum())} overflow, {int(_subnormal(wanted).sum())} subnormal"
    gap = difference("state", stored, wanted)
    if gap is not None and (steps > 1 or gap.differing > 3):
        sentence = f"a store to fp16 isn't a cast where elements leave its range ({counts})"
        return Answer("broken", sentence, example=gap.text())
    return Answer("exact", f"fp16 overflows to infinity above 65,504 and keeps subnormals ({counts})")


def _subnormal(x: Tensor) -> Tensor:
    return (x != 0) & (x.abs() < 2.0**-14)


def _extreme(subject: Subject) -> Case:
    """One token from an empty state; k along one channel, so that a state's elements are β·v: 2^17, 2^-17 and 1."""
    case = subject.case((1,))
    x = case.inputs
    k, v = torch.zeros_like(x.k), torch.ones_like(x.v)
    k[..., 0] = 8.0
    v[..., 0::4], v[..., 1::4] = 2.0**18, 2.0**-16
    b = torch.zeros_like(x.b)
    return Case("extreme", replace(x, k=k, v=v, b=b), torch.zeros_like(case.initial))
