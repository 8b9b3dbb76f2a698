"""Exact checks of rollback, model-free, for ``probe state`` and for a kernel author: each gives one answer and why.

``python -m replaycheck_kernels.speculation.checks --backend triton --device cuda`` prints them as JSON lines; with
``--interpret`` the Triton kernels run in the interpreter, in a process of their own (the repairs change all of Triton).
A check that fails carries the smallest window, length and row that shows it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import torch
from torch import Tensor

from ..error_model import predict_for
from ..oracle import ORACLE_KERNEL
from ..recipe import EXACT, SGLANG, VLLM, Recipe
from ..recurrent import RECURRENT_TORCH
from .backend import BACKENDS, TORCH, Backend, stack
from .bound import association_bound, excess
from .cases import HISTORY, Case, case
from .check_methods import DTYPES, Check, Values, method_check
from .commit import Align, Decays, magnitude
from .copies import CopyPlan
from .function_bound import exact, gpu_bound
from .methods import METHODS
from .verify import Records, each_position

WIDEST = 8


@dataclass(frozen=True)
class Target:
    """What is checked: an implementation on a device, under a recipe, with windows of these widths (1 to 8)."""

    backend: Backend
    device: str = "cpu"
    recipe: Recipe = EXACT
    widths: tuple[int, ...] = (1, 2, 4, 8)


def verify_is_read_only(on: Target) -> Check:
    """The pool's bytes are the same after a verify, and no record of a token that isn't there is written."""
    for width, dtype in product(on.widths, DTYPES):
        lengths = _lengths(width)
        made = case(on.recipe, width, lengths, DTYPES[dtype], on.device)
        before = made.pools.temporal.clone()
        on.backend.verify(made.windows[0], made.pools.temporal[0], made.slots, on.recipe)
        if not _same(before, made.pools.temporal):
            return Check("verify-read-only", False, "a verify wrote the pool", {"window": width, "pool": dtype})
    return Check("verify-read-only", True, "a verify leaves every byte of the pool as it was")


def verify_is_the_recurrence(on: Target) -> Check:
    """Outputs within the error that the recipe predicts of the float64 oracle; recorded keys and decays byte for byte."""
    worst = 0.0
    for width, bound in product(on.widths, (None, -5.0)):
        made = case(on.recipe, width, (width,) * 3, device=on.device, lower_bound=bound, layers=1)
        x, checkpoint = made.windows[0].inputs, made.pools.temporal[0, made.slots]
        done = on.backend.verify(made.windows[0], made.pools.temporal[0], made.slots, on.recipe)
        truth = ORACLE_KERNEL(x, checkpoint, (), on.recipe).o
        found = done.o.flatten(0, 1).double()
        share = float((found - truth).norm() / truth.norm()) / predict_for(x, on.recipe, "recurrent").output
        kept = zip((x.k, x.a), (done.records.key, done.records.decay), strict=True)
        if share > 1 or not all(torch.equal(a, b.transpose(1, 2).flatten(0, 1).to(a.dtype)) for a, b in kept):
            values: Values = {"window": width, "bound": str(bound), "times_predicted": share}
            return Check("verify", False, "a verify isn't the recurrence, or its records aren't its inputs", values)
        worst = max(worst, share)
    sentence = "outputs are within the recipe's error of the oracle, and records are the inputs"
    return Check("verify", True, sentence, {"worst_times_predicted": worst})


def rebuild_is_sequential(on: Target) -> Check:
    """Committed states against the sequential fp32 state, in units of the derived bound; every count of kept tokens."""
    worst = 0.0
    for width, bound in product(on.widths, (None, -5.0)):
        for kept in range(1, width + 1):
            made = case(on.recipe, width, _lengths(width), device=on.device, lower_bound=bound)
            found = _excess(on, made, torch.full_like(made.slots, kept))
            if found > 1:
                values: Values = {"window": width, "kept": kept, "bound": str(bound), "times_bound": found}
                return Check("recover-commit", False, "a rebuilt state is further off than fp32 sums explain", values)
            worst = max(worst, found)
    sentence = "rebuilt states equal sequential ones up to the association of fp32 sums"
    return Check("recover-commit", True, sentence, {"worst_times_bound": worst})


def boundary_is_the_same_rebuild(on: Target) -> Check:
    """The state at a block boundary has the bits of a commit that stops there, for every boundary in the window."""
    for width in on.widths:
        for at in range(1, width + 1):
            made, other = (case(on.recipe, width, (width,), device=on.device) for _ in range(2))
            records = _records(on, made)
            align = Align(
                torch.tensor([[1, 2]], device=on.device), torch.tensor([WIDEST - at], device=on.device), WIDEST
            )
            whole = on.backend.plan(_row(on, width), _row(on, width), made.slots, width, align)
            short = on.backend.plan(_row(on, at), _row(on, width), made.slots, width, None)
            on.backend.rebuild(made.pools.temporal, records, whole, made.decays, on.recipe, True)
            on.backend.rebuild(other.pools.temporal, records, short, made.decays, on.recipe, False)
            if not _same(made.pools.temporal[:, 1], other.pools.temporal[:, 1]):
                values: Values = {"window": width, "boundary": at}
                return Check("recover-boundary", False, "the state at a block boundary isn't the one after it", values)
    return Check("recover-boundary", True, "a boundary's state has the bits of a commit that ends there")


def compaction_moves_the_window(on: Target) -> Check:
    """Columns kept − 1 … move to the front, byte for byte, for every count; the rest of the pool stays."""
    for width in on.widths:
        for kept in range(width + 1):
            made = case(on.recipe, width, _lengths(width), device=on.device)
            before, counts = made.pools.conv.clone(), torch.full_like(made.slots, kept)
            plan = on.backend.plan(counts, made.windows[0].lengths, made.slots, width, None)
            on.backend.compact(made.pools.conv, plan, HISTORY, False)
            for slot, n in zip(made.slots.tolist(), plan.length.tolist(), strict=True):
                if n:
                    before[:, slot, :HISTORY] = before[:, slot, n - 1 : n - 1 + HISTORY].clone()
            if not _same(before, made.pools.conv):
                values: Values = {"window": width, "kept": kept}
                return Check("conv-compaction", False, "a convolution window was moved by another offset", values)
    return Check("conv-compaction", True, "kept windows move to the front byte for byte, and nothing else changes")


def plans_are_the_integers(on: Target) -> Check:
    """Commit plans against integers counted by hand, over every place of a window against two boundaries."""
    width = min(4, max(on.widths))
    block = width + 1
    rows = list(product(range(2 * block + 1), range(-1, width + 2), range(width + 1), (0, 1)))
    computed, accepted, lengths, real = torch.tensor(rows, device=on.device).t().contiguous()
    table = torch.arange(1, 5 * len(rows) + 1, device=on.device).view(-1, 5)
    plan = on.backend.plan(accepted, lengths, real * table[:, 0], width, Align(table, computed, block))
    found = torch.stack([plan.length, plan.final, plan.boundary, plan.boundary_length], 1).tolist()
    for row, got, slots in zip(rows, found, table.tolist(), strict=True):
        wanted = _counted(*row, slots, block)
        if got != wanted:
            values: Values = dict(zip(("computed", "accepted", "length", "real"), row, strict=True))
            return Check("commit-plan", False, f"the plan is {got} and should be {wanted}", values)
    return Check("commit-plan", True, f"{len(rows)} commit plans are the integers of the rule", {"plans": len(rows)})


def copies_move_bytes(on: Target) -> Check:
    """Copies of every dtype and offset move the bytes, NaN patterns included, and nothing else; null pairs do nothing."""
    for dtype, offset in product(DTYPES, (0, 1, WIDEST - 1)):
        made = case(on.recipe, WIDEST, (WIDEST, WIDEST, 1), DTYPES[dtype], on.device)
        temporal, conv = made.pools.temporal, made.pools.conv
        wanted = temporal.clone(), conv.clone()
        for source, destination in ((1, 2), (5, 4)):
            wanted[0][:, destination] = temporal[:, source]
            wanted[1][:, destination, :HISTORY] = conv[:, source, offset : offset + HISTORY]
        pairs = torch.tensor([[1, 5, 0, 3], [2, 4, 6, 0]], device=on.device)
        plan = CopyPlan(pairs[0], pairs[1], torch.full_like(pairs[0], offset))
        on.backend.copy((temporal, temporal), (conv, conv), plan, HISTORY)
        if not _same(wanted[0], temporal) or not _same(wanted[1], conv):
            values: Values = {"pool": dtype, "offset": offset}
            return Check("slot-copy", False, "a copied slot doesn't hold the source's bytes", values)
    return Check("slot-copy", True, "copied slots hold the source's bytes, and nothing else changes")


CHECKS: tuple[Callable[[Target], Check], ...] = (
    verify_is_the_recurrence,
    verify_is_read_only,
    rebuild_is_sequential,
    boundary_is_the_same_rebuild,
    compaction_moves_the_window,
    plans_are_the_integers,
    copies_move_bytes,
)


def run_checks(on: Target) -> Iterator[Check]:
    """All checks on one implementation; the methods, which are torch's, beside torch's."""
    for check in CHECKS:
        yield check(on)
    for name in METHODS if on.backend is TORCH else ():
        yield method_check(name)(on.device, on.recipe, on.widths)


def _lengths(width: int) -> tuple[int, ...]:
    """A full window, a step without drafts and one in between."""
    return (width, 1, (width + 1) // 2)


def _row(on: Target, value: int) -> Tensor:
    return torch.tensor([value], device=on.device)


def _same(a: Tensor, b: Tensor) -> bool:
    """Equal bytes; NaN equals NaN."""
    kind = {2: torch.int16, 4: torch.int32}[a.element_size()]
    return torch.equal(a.view(kind), b.view(kind))


def _records(on: Target, made: Case) -> Records:
    verified = [
        on.backend.verify(window, pool, made.slots, on.recipe)
        for window, pool in zip(made.windows, made.pools.temporal, strict=True)
    ]
    return stack([done.records for done in verified])


def _excess(on: Target, made: Case, kept: Tensor) -> float:
    """Largest difference of a committed state from the sequential one, in units of the bound.

    The sequential state comes from torch's recurrent kernel on the same inputs and checkpoint, which has the key and decay
    of torch's rebuild to the bit. Another implementation takes sums over K and exponentials in its own way, so its records
    differ, too: the rebuild is held against the recurrence of its own records (u added one by one) in float64, which
    isolates the commit, and the bound has the errors of a GPU's functions.
    """
    checkpoint, records = made.pools.temporal[:, made.slots].clone(), _records(on, made)
    plan = on.backend.plan(kept, made.windows[0].lengths, made.slots, made.windows[0].width, None)
    on.backend.rebuild(made.pools.temporal, records, plan, made.decays, on.recipe, False)
    worst = 0.0
    for layer in range(made.layers):
        mine = Records(records.correction[layer], records.key[layer], records.decay[layer])
        decays = Decays(made.decays.A_log[layer], made.decays.dt_bias[layer], made.decays.lower_bound)
        start = checkpoint[layer]
        found = made.pools.temporal[layer, made.slots]
        truth = _sequential(on, made, layer, start, mine, plan.length)
        if on.backend is TORCH:
            allowed = association_bound(plan.length, magnitude(start, mine, plan.length, decays, on.recipe))
        else:
            allowed = gpu_bound(start, mine, plan.length, decays, on.recipe)
        worst = max(worst, excess(found, truth, allowed))
    return worst


def _sequential(on: Target, made: Case, layer: int, checkpoint: Tensor, records: Records, kept: Tensor) -> Tensor:
    """The state after ``kept`` tokens, token by token."""
    if on.backend is TORCH:
        _, states = each_position(RECURRENT_TORCH, made.windows[layer], checkpoint, on.recipe)
        rows = torch.arange(kept.shape[0], device=kept.device)
        return torch.stack(list(states), 1)[rows, kept - 1]
    decays = Decays(made.decays.A_log[layer], made.decays.dt_bias[layer], made.decays.lower_bound)
    return exact(checkpoint, records, kept, decays, on.recipe)


def _counted(computed: int, accepted: int, length: int, real: int, slots: Sequence[int], block: int) -> list[int]:
    """Length, final slot, boundary slot, tokens before the boundary, by stepping through the kept tokens."""
    kept = [computed + t + 1 for t in range(length) if t < accepted] if real else []
    if not kept:
        return [0, 0, 0, 0]
    edges = [(n // block - 1, t + 1) for t, n in enumerate(kept) if n % block == 0]
    boundary, ahead = edges[0] if edges else (None, 0)
    last = min((kept[-1] - 1) // block, len(slots) - 1)
    return [len(kept), slots[last], 0 if boundary is None else slots[boundary], ahead]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a JSON line a check."""
    options = _options(arguments)
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when kernels are defined
        from ..providers.interpreter import repair_triton

        torch.set_num_threads(1)
        repair_triton()
    recipe = {r.name: r for r in (EXACT, SGLANG, VLLM)}[options.recipe]
    on = Target(BACKENDS[options.backend](), options.device, recipe, tuple(options.widths))
    answers = list(run_checks(on))
    for answer in answers:
        print(json.dumps(asdict(answer), sort_keys=True), flush=True)
    return 0 if all(answer.exact for answer in answers) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Exact checks of speculation's state operations.")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="torch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--recipe", choices=["exact", "sglang", "vllm"], default="exact")
    parser.add_argument("--widths", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--interpret", action="store_true", help="Triton's interpreter, on the CPU")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
