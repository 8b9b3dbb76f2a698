"""Tensor parallelism checked exactly: random layers of 8 heads at every degree, and a model's own layers over two ranks.

``python -m replaycheck.subjects.lab.parallel_checks --device cuda`` prints the answers as JSON lines. ``--processes gloo``
(or ``nccl``, with two GPUs) also runs two real processes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import torch

from replaycheck.assets import model_dir
from replaycheck.schedule.compile import compile_schedule
from replaycheck.schedule.parallel import Geometry, fitting_degrees
from replaycheck.schema.arm import Answers, Arm, CheckpointPolicy, Compiler, Kernel, PoolDtype
from replaycheck.schema.trace import Group
from replaycheck.traces.read import read_groups
from replaycheck.traces.suite import find_traces
from replaycheck_kernels.contract import StateKernel
from replaycheck_kernels.recipe import PRESETS, Recipe
from replaycheck_kernels.registry import ours
from replaycheck_kernels.speculation.check_methods import Check, Values

from .executor import ArmRun, execute
from .kernels import KernelChoice
from .network import Network, RowInput, Tap
from .parallel import ParallelNetwork, plan_for
from .parallel_compare import compare_with_whole
from .parallel_layer import LayerCase, compare_layer
from .parallel_processes import RankTask, run_ranks

GEOMETRIES = {"8 heads": Geometry(8, 8, 64, 64), "8 heads, 16 of values, V ≠ K": Geometry(8, 16, 64, 96)}
LENGTHS = (1, 63, 64, 65, 129)
"""Round the chunk of 64 tokens."""
TOKENS = tuple((7 * i * i + 3 * i + 1) % 96 + 32 for i in range(200))

Kernels = Mapping[str, StateKernel]


def check_layers(recipe: Recipe, kernels: Kernels, device: str = "cpu") -> Iterator[Check]:
    """A row a geometry and form: local results over 2, 4 and 8 ranks are slices, and sums keep to their bound."""
    for (name, geometry), form in product(GEOMETRIES.items(), kernels):
        yield _layer(
            f"sharded layer: {name}, {form}", LayerCase(geometry, LENGTHS, form, device=device), recipe, kernels
        )


def _layer(name: str, case: LayerCase, recipe: Recipe, kernels: Kernels) -> Check:
    largest = changed = 0.0
    for degree in fitting_degrees(case.geometry)[1:]:
        found = compare_layer(case, degree, recipe, kernels)
        largest, changed = max(largest, found.sum.of_bound), max(changed, found.sum.after)
        if found.problems:
            return Check(name, False, found.problems[0], {"degree": degree})
        if found.sum.of_bound > 1:
            return Check(name, False, "a sum over ranks differs by more than its order explains", {"degree": degree})
    values: Values = {"sum_of_bound": largest, "sum_changed": changed}
    return Check(name, True, "local states, snapshots and outputs of every rank are slices of the whole", values)


def check_model(path: Path, recipe: Recipe, kernels: Kernels, device: str = "cpu", degree: int = 2) -> Iterator[Check]:
    """Two rows: every layer on equal inputs, and the whole model by its own sums."""
    whole = Network(path, recipe, kernels, device)
    ranks = ParallelNetwork(path, recipe, kernels, device, plan_for(path, degree))
    rows = sample_rows(whole)
    found = compare_with_whole(whole, ranks, rows)
    largest = max(each.of_bound for each in found.sums)
    fine = not found.problems and largest <= 1
    said = (
        "on equal layer inputs every rank's states are slices" if fine else next(iter(found.problems), "a sum is off")
    )
    changed = max(each.after for each in found.sums)
    values: Values = {"degree": degree, "sum_of_bound": largest, "sum_changed": changed}
    yield Check("sharded model: layer by layer", fine, said, values)
    yield _whole_model(whole, ranks, rows[:1], degree)


def sample_rows(network: Network) -> list[RowInput]:
    """A long prefill with a snapshot inside, one of one token, and tokens one by one."""
    empty = network.empty_state()
    return [
        RowInput(TOKENS, 0, "chunk", empty, (Tap(1, "accumulator", 64, 64),)),
        RowInput(TOKENS[5:6], 0, "chunk", empty),
        RowInput(TOKENS[:70], 0, "recurrent", empty),
    ]


def _whole_model(whole: Network, ranks: ParallelNetwork, rows: list[RowInput], degree: int) -> Check:
    """The first layer's inputs are equal, so its state is; the logits differ by the sums' order, which is reported."""
    one, many = whole.forward(rows)[0], ranks.forward(rows)[0]
    same = torch.equal(one.final.temporal[0], many.final.temporal[0])
    logs = [torch.log_softmax(each.logits.double(), 1) for each in (one, many)]
    values: Values = {"degree": degree, "largest_dlogp": float((logs[0] - logs[1]).abs().max())}
    values["rms_dlogp"] = float((logs[0] - logs[1]).square().mean().sqrt())
    said = (
        "the first layer's state is the same, logits differ by the order of sums" if same else "the first state differs"
    )
    return Check("sharded model: whole", same, said, values)


def check_processes(path: Path, recipe: Recipe, group: Group, backend: str, device: str) -> Check:
    """Two processes against two ranks of this one: equal logits of a warm arm, at every scored position."""
    arm = Arm(
        compiler=Compiler.WARM,
        history=Kernel.CHUNK,
        tail=Kernel.CHUNK,
        answers=Answers.DECODED,
        pool=PoolDtype.BF16,
        policy=CheckpointPolicy(every=64, turn_end=True),
        recipe=recipe.name,
        tensor_parallel=2,
    )
    found = run_ranks(RankTask(group, (arm,), path, recipe.name, 2, KernelChoice(device=device), backend))
    network = ParallelNetwork(path, recipe, ours(recipe, device), device, plan_for(path, 2))
    together = execute([ArmRun(compile_schedule(group, arm), network)])[0]
    turns = [pair for rank in found for pair in zip(rank[0].turns, together.turns, strict=True)]
    same = all(np.array_equal(a.logits.view(np.uint32), b.logits.view(np.uint32)) for a, b in turns)
    said = "two processes have the logits of two ranks in one process" if same else "processes have other logits"
    return Check(f"processes: {backend}", same, said, {"hits": found[0][0].proven_hits})


def main(arguments: list[str] | None = None) -> int:
    """1 if an answer isn't exact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--model", type=Path, default=None, help="the shipped one if left out")
    parser.add_argument("--recipe", choices=sorted(PRESETS), default="sglang")
    parser.add_argument("--processes", choices=("gloo", "nccl"))
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    path, recipe = model_dir(None) if given.model is None else given.model, PRESETS[given.recipe]
    kernels = ours(recipe, given.device)
    answers = [*check_layers(recipe, kernels, given.device), *check_model(path, recipe, kernels, given.device)]
    if given.processes:
        group = read_groups(find_traces(("suite:quick",))[0])[0]
        answers.append(check_processes(path, recipe, group, given.processes, given.device))
    for answer in answers:
        print(json.dumps(asdict(answer), ensure_ascii=False))
    return int(not all(answer.exact for answer in answers))


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())
