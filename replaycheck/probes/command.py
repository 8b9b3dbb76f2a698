"""``probe kernels``: a table, and with ``--out`` a folder.

environment.json   versions, device, command, times
result.json        the table; on the CPU the same inputs and seed give the same bytes
times.json         seconds a kernel and property, and the configurations that autotuning chose
probe.html         the same for reading
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from replaycheck.errors import EngineEnvironmentError
from replaycheck.files import write_atomically
from replaycheck.json_files import write_json
from replaycheck.model.checkpoint import digest
from replaycheck.replay.environment import describe, finished
from replaycheck.replay.store import create_run
from replaycheck.report.probe_html import probe_page
from replaycheck.say import Say
from replaycheck.schema.environment import Environment
from replaycheck.schema.probe_table import ProbeTable
from replaycheck.schema.probe_times import ProbeTimes
from replaycheck.schema.result import ProbeResult
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.kernels import KernelChoice
from replaycheck_kernels.providers.loading import OURS

from .collection import kernel_probes, learnt_decays
from .recorder import record
from .table import Request, probe_table, providers


def probe_kernels(
    request: Request, model: Path, groups: Sequence[Group], out: Path | None, say: Say
) -> tuple[ProbeTable, ProbeTimes]:
    """Probe with the decays that ``model`` learnt, and with its activations on the longest prompt of ``groups``.

    Nothing is written, nor long work begun, before all names are known.

    Raises:
        UsageError: an unknown provider, kernel or recipe, or a folder that isn't empty.
        EngineEnvironmentError: a package or the device isn't there.
    """
    require_gpu(request.device)
    providers(request)
    torch.set_num_threads(1)
    environment = _environment(request, model)
    run = create_run(environment, out) if out else None
    learnt, recording = tuple(learnt_decays(model, request.recipe)), record(model, groups)
    request = replace(request, learnt=learnt, recording=recording)
    table, times = probe_table(request, _of_a_run(request, model), say)
    if run:
        environment = finished(environment)
        write_json(run.environment, environment)
        write_json(run.path / "result.json", table)
        write_json(run.path / "times.json", times)
        write_atomically(run.path / "probe.html", probe_page(table, times, environment).encode("utf-8"))
    return table, times


def require_gpu(device: str) -> None:
    """Refuse a GPU that isn't there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineEnvironmentError(
            "--device cuda: torch sees no GPU here; use --device cpu, or see `replaycheck doctor`"
        )


def _of_a_run(request: Request, model: Path) -> Sequence[ProbeResult]:
    """What ``run`` probes: our kernels that it would use on the CPU, at the model's widths."""
    if OURS not in request.specs or request.device != "cpu":
        return ()
    found = kernel_probes(model, request.recipe, KernelChoice(), request.seed, request.spoil)
    return [each for each in found if not request.only or any(part in each.name for part in request.only)]


def _environment(request: Request, model: Path) -> Environment:
    inputs = {
        "kernels": ", ".join(request.specs),
        "only": ", ".join(request.only),
        "recipe": request.recipe,
        "seed": str(request.seed),
        "device": request.device,
        "autotune": str(request.autotune),
        "model digest": digest(model),
    }
    name = torch.cuda.get_device_name() if request.device == "cuda" else None
    return describe(inputs, request.device, name)
