"""Run a provider's kernels in Triton's interpreter and print their errors against the float64 oracle as JSON lines.

``python -m replaycheck_kernels.providers.interpreted fla --kernels-path DIR --only chunk_kda --lengths 70,33``

``measure`` starts exactly this in a child process, because the interpreter and its repairs change a whole process. Each
line is {kernel, seconds, recipe, o, state, allowed_o, allowed_state, snapshot, source, restored} or {kernel, error}:
relative Frobenius errors of the outputs, of the final states and of a snapshot at chunk 1 of the first sequence; what the
claimed recipe predicts; ``restored``: whether going on from that snapshot gave the bits of the whole sequence.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ..contract import KdaInputs, KdaOutput, SnapshotRow
    from ..recipe import Recipe
    from .provider import ModelKind, ProviderKernel


def measure(spec: str, *options: str, timeout: float = 600) -> list[dict[str, Any]]:
    """Run this module in a child process.

    Args:
        options: as on the command line, e.g. ``--only=chunk``.
        timeout: seconds.

    Raises:
        RuntimeError: the child failed as a whole; the text is its last line.
    """
    command = [sys.executable, "-m", __name__, spec, *options]
    packages = str(Path(__file__).parents[2])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": packages, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(arguments: Sequence[str] | None = None) -> int:
    """The child: a JSON line a kernel; exit code 0 also where a kernel fails, since that is what was asked."""
    options = _options(arguments)
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when kernels are defined
    import torch

    from .interpreter import repair_triton
    from .loading import load_provider

    torch.set_num_threads(1)
    repair_triton()
    provider = load_provider(options.spec, options.kernels_path)
    for found in provider.kernels:
        if not options.only or any(part in found.name for part in options.only):
            print(json.dumps(_measured(found, options), sort_keys=True), flush=True)
    for name, reason in provider.unavailable.items():
        print(json.dumps({"kernel": name, "error": reason}), flush=True)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kernels in Triton's interpreter against the float64 oracle.")
    parser.add_argument("spec", help="fla, sglang, vllm or pkg.mod:factory")
    parser.add_argument("--kernels-path", type=Path)
    parser.add_argument("--only", action="append", default=[], help="part of a kernel's name; may be repeated")
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[70, 33])
    parser.add_argument("--key", type=int, default=32, help="K")
    parser.add_argument("--value", type=int, default=32, help="V")
    parser.add_argument("--lower-bound", type=float, help="of the decay; softplus without it")
    return parser.parse_args(arguments)


def _measured(found: ProviderKernel, options: argparse.Namespace) -> dict[str, Any]:
    """One line; a kernel that fails says so in its line and the others go on."""
    begin = time.monotonic()
    try:
        inputs, initial = case(found.kind, options.lengths, options.key, options.value)
        line = compare(found, replace(inputs, lower_bound=options.lower_bound), initial)
    except Exception as error:
        line = {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}
    return {"kernel": found.name, "seconds": round(time.monotonic() - begin, 1), **line}


def compare(found: ProviderKernel, inputs: KdaInputs, initial: Tensor) -> dict[str, Any]:
    """Errors against the oracle, and whether the run can go on from a snapshot."""
    from ..contract import SnapshotRow, SnapshotSource
    from ..error_model import predict_for
    from ..oracle import ORACLE_KERNEL

    recipe = recipe_of(found, inputs)
    interior = found.kernel.sources - {SnapshotSource.FINAL}
    rows = [SnapshotRow(0, 1, 0, min(interior))] if interior and inputs.offsets[1] > recipe.chunk else []
    got = found.kernel(inputs, initial, rows, recipe)
    truth = ORACLE_KERNEL(inputs, initial, rows, recipe)
    allowed = predict_for(inputs, recipe, "chunk" if found.kernel.form == "chunk" else "recurrent")
    line: dict[str, Any] = {"o": error(got.o, truth.o), "state": error(got.final, truth.final), "recipe": recipe.name}
    line |= {"allowed_o": allowed.output, "allowed_state": allowed.state}
    if rows:
        line |= {"snapshot": error(got.snapshots, truth.snapshots), "source": str(rows[0].source)}
        line["restored"] = _restored(found, inputs, got, rows[0], recipe)
    return line


def recipe_of(found: ProviderKernel, inputs: KdaInputs) -> Recipe:
    """The claimed preset, or where there is none the first that the kernel takes, for its activations' precision."""
    from ..recipe import EXACT, preset

    name = found.claim(inputs) or min(found.kernel.recipes or {EXACT.name})
    return preset(name)


def _restored(found: ProviderKernel, inputs: KdaInputs, got: KdaOutput, row: SnapshotRow, recipe: Recipe) -> bool:
    """Whether the rest of the first sequence, from the snapshot, has the bits of the whole run."""
    rest = part(inputs, row.chunk * recipe.chunk, inputs.offsets[1])
    again = found.kernel(rest, got.snapshots, (), recipe)
    return bool((again.o == got.o[row.chunk * recipe.chunk : inputs.offsets[1]]).all())


def case(
    kind: ModelKind, lengths: Sequence[int], key: int, value: int, heads: int = 2, seed: int = 0
) -> tuple[KdaInputs, Tensor]:
    """Random inputs in bf16 values and initial states; decays of about −0.7·A a token, A from 0.1 to 0.4."""
    import torch

    from ..contract import KdaInputs

    draws, tokens = torch.Generator().manual_seed(seed), sum(lengths)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws).bfloat16().float()

    channels = 1 if kind == "gdn" else key
    inputs = KdaInputs(
        q=normal(tokens, heads, key),
        k=normal(tokens, heads, key),
        v=normal(tokens, heads, value),
        a=normal(tokens, heads, channels),
        b=normal(tokens, heads),
        A_log=torch.linspace(0.1, 0.4, heads).log(),
        dt_bias=torch.randn(heads, channels, generator=draws),
        offsets=(0, *accumulate(lengths)),
    )
    return inputs, torch.randn(len(lengths), heads, value, key, generator=draws) * 0.3


def part(inputs: KdaInputs, begin: int, end: int) -> KdaInputs:
    """Packed tokens from ``begin`` to ``end`` as one sequence."""
    cut = {name: getattr(inputs, name)[begin:end] for name in ("q", "k", "v", "a", "b")}
    return replace(inputs, **cut, offsets=(0, end - begin), starts=())


def error(found: Tensor, truth: Tensor) -> float:
    """Frobenius error of ``found`` [...] relative to the truth, of one shape."""
    return float((found.double() - truth.double()).norm() / truth.double().norm())


if __name__ == "__main__":
    sys.exit(main())
