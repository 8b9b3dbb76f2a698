"""The probe of tensor parallelism: a model's states over ranks against slices of those of one rank, layer by layer.

Every layer of every rank gets the whole network's inputs, so its states must be slices of the whole, bit for bit, and only
the sums over ranks may differ, by no more than another order of additions can (docs/tensor-parallel.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from replaycheck.schedule.parallel import ParallelPlan
from replaycheck.schema.result import ProbeResult
from replaycheck.subjects.lab.kernels import KernelChoice, lab_kernels
from replaycheck.subjects.lab.network import Network
from replaycheck.subjects.lab.parallel import ParallelNetwork, plan_for
from replaycheck.subjects.lab.parallel_checks import sample_rows
from replaycheck.subjects.lab.parallel_compare import Comparison, compare_with_whole
from replaycheck_kernels.precision import Precision
from replaycheck_kernels.recipe import preset

__all__ = ["parallel_probes"]

Spoil = Callable[[ParallelPlan], ParallelPlan]


@torch.no_grad()
def parallel_probes(
    model: Path, recipe: str, choice: KernelChoice, degrees: Iterable[int], spoil: Spoil | None = None
) -> Iterator[ProbeResult]:
    """One result a degree. ``spoil``: a fault of the ranks' plans.

    The float64 oracle is left out: it picks the order of a contraction by the number of heads.
    """
    used = preset(recipe)
    if used.activation is Precision.FP64:
        return
    kernels = lab_kernels(choice, used).kernels()
    for degree in degrees:
        whole = Network(model, used, kernels, choice.device)
        plan = plan_for(model, degree)
        ranks = ParallelNetwork(model, used, kernels, choice.device, spoil(plan) if spoil else plan)
        yield _result(degree, compare_with_whole(whole, ranks, sample_rows(whole)))


def _result(degree: int, found: Comparison) -> ProbeResult:
    share = max(each.of_bound for each in found.sums)
    changed = max(each.after for each in found.sums)
    fine = not found.problems and share <= 1
    wrong = found.problems[0] if found.problems else f"a sum over ranks differs by {share:.3g} times its bound"
    right = f"states of {degree} ranks are slices of one rank's; sums differ by at most {share:.2g} of their bound"
    return ProbeResult(
        name=f"parallel/tp{degree}",
        verdict="pass" if fine else "fail",
        sentence=right if fine else wrong,
        values={
            "degree": degree,
            "mismatches": len(found.problems),
            "sum_of_bound": min(share, LARGEST),
            "sum_changed": changed,
        },
    )


LARGEST = 1e30
"""Stands for a share without a finite size: a term of a sum that is 0 in the whole and isn't over ranks."""
