"""What a kernel writes: one direct cast into each pool, nothing into other slots and rows, and fp16 as IEEE has it.

Where the engine's own in-place call is there, it is probed; other kernels return fp32 states, which their caller stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_kernels.contract import KdaInputs

from .answer import Answer, CannotProbe, Trial, agreement
from .association import Flips, flips
from .difference import Difference, difference
from .packing import poisoned, taken
from .pools import in_place, make_pool, pool_name
from .subject import Case, Decays, Subject, words

_HALF = 0.5
"""Chance gives 2^-13 at most, and a rounded state everything; small integers and zeros may fit in between."""


def stores(subject: Subject) -> Answer:
    """A state stored in each pool dtype is one direct cast of an fp32 accumulator."""
    noise: list[tuple[float, float, str, str]] = []
    for case, dtype in _stored_cases(subject):
        if rounded := _rounded(subject.run(case).final):
            return Answer("broken", rounded, example=f"{case.name}, {words(case.inputs.lengths())}")
        stored = _stored(subject, case, dtype)
        if stored.gap is None:
            continue
        share, allowed = (count / stored.gap.elements for count in (stored.gap.differing, stored.flips.allowed))
        example = f"{case.name}, {pool_name(dtype)} pool, {words(case.inputs.lengths())}: {stored.gap.text()}"
        if stored.beyond or share > allowed:
            count = stored.beyond or stored.gap.differing
            sentence = f"{pool_name(dtype)} pool: {count:,} elements aren't one cast of an accumulator"
            return Answer("broken", sentence, share, allowed, example)
        noise.append((share, allowed, pool_name(dtype), example))
    pools = ", ".join(map(pool_name, subject.found.can.pool_dtypes))
    if not noise:
        return Answer("exact", f"one direct cast into {pools}")
    share, allowed, name, example = max(noise)
    sentence = (
        f"one cast into {pools}, but {share:.2g} of the elements in {name} are a cast of another accumulator: its fp32 sums "
        "ran in another order"
    )
    return Answer("noise", sentence, share, allowed, example)


@dataclass(frozen=True)
class _Stored:
    """gap: the pool against the cast of the accumulator that an fp32 call shows; beyond: elements of it without excuse."""

    gap: Difference | None
    flips: Flips
    beyond: int


def _stored(subject: Subject, case: Case, dtype: torch.dtype) -> _Stored:
    first = case.initial.to(dtype)
    slots, pool = make_pool(subject, first, dtype)
    in_place(subject, case, pool, slots)
    begun = case.begun(first.to(case.initial.dtype))
    seen, stored = subject.run(begun).final, pool[slots]
    may = flips(seen, begun.initial, dtype)
    return _Stored(difference("state", stored, seen.to(dtype)), may, int(may.beyond(stored, seen).sum()))


def _stored_cases(subject: Subject) -> Iterator[tuple[Case, torch.dtype]]:
    for decay in subject.several():
        case = _short(subject, decay)
        yield from ((case, dtype) for dtype in subject.found.can.pool_dtypes)


def _short(subject: Subject, decay: Decays | None = None) -> Case:
    """A recurrent call on a pool rounds at each token, so it gets one token."""
    lengths = subject.sizes.lengths if subject.form == "chunk" else (1,) * len(subject.sizes.lengths)
    return subject.case(lengths, decay)


def _rounded(final: Tensor) -> str | None:
    """A final state is an accumulator: by chance an element of it fits bf16 once in 2^16, fp16 once in 2^13."""
    for dtype in (torch.bfloat16, torch.float16):
        share = float((final.to(dtype).to(final.dtype) == final).double().mean())
        if share > _HALF:
            return (
                f"{share:.0%} of the elements of its fp32 final states fit {pool_name(dtype)}: they are rounded on the way "
                "and aren't fp32 accumulators"
            )
    return None


def untouched(subject: Subject) -> Answer:
    """NaN in other slots and in another sequence: slots keep it, results of the others don't get it; arguments stay."""
    case = subject.case(subject.sizes.lengths)
    before = replace(case, initial=case.initial.clone(), inputs=_copy(case))
    subject.run(case)
    for name in ("q", "k", "v", "a", "b"):
        if gap := difference(name, getattr(case.inputs, name), getattr(before.inputs, name)):
            return Answer("broken", f"the call wrote to its argument {name}", example=gap.text())
    if gap := difference("initial", case.initial, before.initial):
        return Answer("broken", "the call wrote to its initial states", example=gap.text())
    return _slots_kept(subject) or agreement(
        _beside_nan(subject), "slots and arguments untouched; results beside a sequence of NaN"
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


def _beside_nan(subject: Subject) -> Iterator[Trial]:
    """Pairs first, as smaller examples; the usual pack last."""
    lengths = subject.sizes.lengths
    shortest, longest = min(lengths), max(lengths)
    for pack in ((shortest, shortest), (longest, shortest), (shortest, longest), lengths):
        case = subject.case(pack)
        clean = subject.run(case)
        for bad in range(len(pack)):
            got = subject.run(poisoned(case, bad))
            for good in (r for r in range(len(pack)) if r != bad):
                where = f"{words(pack)}, NaN in sequence {bad}, result of {good}"
                yield Trial(where, taken(got, case, good), taken(clean, case, good), subject.prediction(case))


def fp16_range(subject: Subject) -> Answer:
    """A state above 65,504 stored as fp16 is infinite, one under 2^-14 keeps its subnormal bits."""
    if torch.float16 not in subject.found.can.pool_dtypes:
        raise CannotProbe("it has no fp16 pool")
    case = _extreme(subject)
    slots, pool = make_pool(subject, case.initial.half(), torch.float16)
    in_place(subject, case, pool, slots)
    final = subject.run(case).final
    wanted, stored = final.half(), pool[slots]
    counts = f"{int(wanted.isinf().sum())} overflow, {int(_subnormal(wanted).sum())} subnormal"
    may, gap = flips(final, case.initial, torch.float16), difference("state", stored, wanted)
    if gap is not None and (bool(may.beyond(stored, final).any()) or gap.differing > may.allowed):
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
