"""Every kernel of the chosen providers × every property: the table of ``probe kernels``.

Each kernel runs in a child process, so that a crash or a hang costs a cell, not the table, and several compile at once. Only
our own kernels on the CPU, which neither compile nor crash, run in this process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from torch import Tensor

from replaycheck.autotuning import PROBED
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.processes import cores
from replaycheck.say import Say
from replaycheck.schema.probe_table import ProbeRow, ProbeTable
from replaycheck.schema.probe_times import ProbeTimes, RowTimes
from replaycheck.schema.result import ProbeResult
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow
from replaycheck_kernels.providers import MissingPackage, Provider, ProviderError, ProviderKernel, load_provider
from replaycheck_kernels.providers.loading import ENGINES, OURS
from replaycheck_kernels.recipe import Recipe

from .isolated import Isolated, isolated_cells
from .properties import NAMES, PROPERTIES
from .recording import Recording
from .subject import DEVICE, INTERPRETED, SMALL, STEPWISE, Learnt, Sizes, Subject
from .timed import Timed, timed

Spoil = Callable[[Recipe], Recipe]


@dataclass(frozen=True)
class Request:
    """What to probe.

    Attributes:
        specs: providers, as after ``--kernels``.
        path: folder with unpacked packages, for fla, sglang and vllm.
        only: parts of kernel names; a kernel with any of them is probed, all if there are none.
        recipe: for kernels that claim none.
        learnt, recording: decays and activations of a model.
        spoil: a recipe fault, planted in our kernels, which then run in this process.
        autotune: most configurations that Triton times for a kernel on a GPU; 0 means all.
        workers: kernels that are probed at the same time. limit: seconds for one; None takes the device's.
        total: seconds for all of them; what isn't done by then can't be said.
    """

    specs: tuple[str, ...] = (OURS,)
    path: Path | None = None
    device: str = "cpu"
    only: tuple[str, ...] = ()
    recipe: str = "sglang"
    seed: int = 0
    learnt: Learnt = field(default=())
    recording: Recording | None = None
    spoil: Spoil | None = None
    autotune: int = PROBED
    workers: int = 1
    limit: float | None = None
    total: float | None = None


def providers(request: Request) -> list[tuple[str, Provider]]:
    """Load them all first, so that a missing one is known before anything runs.

    Raises:
        EngineEnvironmentError: a package isn't there. UsageError: no such provider, or nothing has such a name.
    """
    try:
        loaded = [
            (spec, load_provider(spec, request.path if spec in ENGINES else None))
            for spec in dict.fromkeys(request.specs)
        ]
    except MissingPackage as error:
        raise EngineEnvironmentError(str(error)) from None
    except ProviderError as error:
        raise UsageError(str(error)) from None
    for spec, provider in loaded:
        if not provider.kernels:
            reasons = "; ".join(f"{name}: {why}" for name, why in provider.unavailable.items())
            raise EngineEnvironmentError(f"{spec}: none of its kernels can be loaded: {reasons or 'it has none'}")
    names = [found.name for _, provider in loaded for found in provider.kernels]
    if not any(_chosen(name, request) for name in names):
        raise UsageError(
            f"--only {', '.join(request.only)}: no kernel has that in its name; there are {_listed(names)}"
        )
    return loaded


@dataclass(frozen=True)
class Job:
    """A row to be made."""

    spec: str
    provider: Provider
    found: ProviderKernel

    @property
    def label(self) -> str:
        return f"{self.found.name} ({self.found.kind})"


def probe_table(
    request: Request, probes: Sequence[ProbeResult] = (), say: Say = lambda line: None
) -> tuple[ProbeTable, ProbeTimes]:
    """Probe and put together.

    Args:
        probes: the probes of a run, to be kept beside the table.
        say: gets a line for each kernel as it is done.
    """
    loaded = providers(request)
    not_probed = {name: why for _, provider in loaded for name, why in provider.unavailable.items()}
    chosen = [Job(*each, found) for each in loaded for found in each[1].kernels if _chosen(found.name, request)]
    if request.device == "cuda":
        not_probed |= {job.found.name: "runs on the CPU only" for job in chosen if not job.found.runs_on("cuda")}
        chosen = [job for job in chosen if job.found.runs_on("cuda")]
    with tempfile.TemporaryDirectory(prefix="replaycheck-") as folder:
        file = request.recording.save(Path(folder) / "recording.safetensors") if request.recording else None
        rows = _rows(chosen, request, file, say)
    warnings = tuple(warning for _, provider in loaded if (warning := provider.warning()))
    table = ProbeTable(
        device=request.device,
        autotune=request.autotune if request.device == "cuda" else None,
        seed=request.seed,
        properties=tuple(each.described() for each in PROPERTIES),
        rows=tuple(_row(job, request, cells) for job, cells in rows),
        not_probed=dict(sorted(not_probed.items())),
        warnings=warnings,
        probes=tuple(probes),
    )
    return table, ProbeTimes(rows=tuple(_times(job, cells) for job, cells in rows))


def _rows(jobs: Sequence[Job], request: Request, recording: Path | None, say: Say) -> list[tuple[Job, list[Timed]]]:
    """In the order of the jobs. Chunk kernels, which take longest to compile, begin first."""
    begin = monotonic()

    def work(job: Job) -> list[Timed]:
        left = request.limit if request.total is None else begin + request.total - monotonic()
        limit = left if request.limit is None or left is None else min(left, request.limit)
        return list(_cells(job, replace(request, limit=limit), recording))

    order = sorted(range(len(jobs)), key=lambda i: jobs[i].found.kernel.form != "chunk")
    done: dict[int, list[Timed]] = {}
    with ThreadPoolExecutor(request.workers) as pool:
        waiting = {pool.submit(work, jobs[i]): i for i in order}
        for future in as_completed(waiting):
            i = waiting[future]
            done[i] = future.result()
            say(f"{jobs[i].label}: {_counted(done[i])}")
    return [(job, done[i]) for i, job in enumerate(jobs)]


def _cells(job: Job, request: Request, recording: Path | None) -> Iterator[Timed]:
    subject = _subject(job, request)
    if job.spec == OURS and (request.device == "cpu" or request.spoil is not None):
        return (timed(name, subject) for name in NAMES)
    path = request.path if job.spec in ENGINES else None
    return isolated_cells(Isolated(job.spec, path, subject, request.autotune, recording, request.limit))


def _subject(job: Job, request: Request) -> Subject:
    return Subject(
        job.provider,
        _spoiled(job.found, request, job.spec),
        request.device,
        request.recipe,
        sizes_for(job.found, request.device),
        request.seed,
        request.learnt,
        request.recording,
    )


def _row(job: Job, request: Request, cells: Sequence[Timed]) -> ProbeRow:
    subject = replace(_subject(job, request), device="cpu")  # the claim depends on shapes only
    claim = job.found.claim(subject.case((1,)).inputs)
    return ProbeRow(
        provider=job.provider.name,
        version=job.provider.version,
        kernel=job.found.name,
        kind=job.found.kind.value,
        form=job.found.kernel.form,
        recipe=claim or subject.unclaimed(),
        claimed=claim is not None,
        cells=tuple(each.cell for each in cells),
    )


def _times(job: Job, cells: Sequence[Timed]) -> RowTimes:
    warm = [each.warm for each in cells if each.warm is not None]
    tuned: dict[str, set[str]] = {}
    for each in cells:
        for kernel, configurations in each.tuned.items():
            tuned.setdefault(kernel, set()).update(configurations)
    return RowTimes(
        provider=job.provider.name,
        kernel=job.found.name,
        kind=job.found.kind.value,
        first=round(sum(each.first for each in cells), 3),
        warm=round(sum(warm), 3) if warm else None,
        properties={each.cell.property: round(each.first if each.warm is None else each.warm, 3) for each in cells},
        tuned={kernel: tuple(sorted(found)) for kernel, found in sorted(tuned.items())},
    )


def default_workers() -> int:
    """Two cores are left for this process and for what the kernels' compilers start."""
    return max(1, cores() - 2)


def sizes_for(found: ProviderKernel, device: str) -> Sizes:
    """Shapes that the kernel can do in the time that it takes there."""
    on_gpu = STEPWISE if found.runs_on("cpu") else DEVICE  # what also runs on the CPU isn't one kernel
    sizes = on_gpu if device == "cuda" else SMALL if found.runs_on("cpu") else INTERPRETED
    return replace(sizes, value=sizes.key) if found.can.equal_widths else sizes


def _spoiled(found: ProviderKernel, request: Request, spec: str) -> ProviderKernel:
    """Our kernel under the recipe that a planted fault makes of the one it is asked for."""
    spoil = request.spoil
    if spoil is None or spec != OURS:
        return found
    honest = found.kernel.forward

    def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        return honest(x, initial, rows, spoil(recipe))

    return replace(found, kernel=replace(found.kernel, forward=forward))


def _chosen(name: str, request: Request) -> bool:
    return not request.only or any(part in name for part in request.only)


def _counted(cells: Sequence[Timed]) -> str:
    verdicts = [each.cell.verdict for each in cells]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"
