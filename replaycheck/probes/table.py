"""Every kernel of the chosen providers × every property: the table of ``probe kernels``.

On a GPU kernels run in this process. On the CPU other providers' kernels run in a child process each, in Triton's
interpreter where they need it, so that a crash costs one cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schema.probe_table import ProbeCell, ProbeRow, ProbeTable
from replaycheck.schema.result import ProbeResult
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow
from replaycheck_kernels.providers import MissingPackage, Provider, ProviderError, ProviderKernel, load_provider
from replaycheck_kernels.recipe import Recipe

from .isolated import Isolated, isolated_cells
from .properties import PROPERTIES, probe
from .subject import DEVICE, INTERPRETED, SMALL, Learnt, Sizes, Subject

OURS = "ours"
_ENGINES = ("fla", "sglang", "vllm")

Say = Callable[[str], object]
Spoil = Callable[[Recipe], Recipe]


@dataclass(frozen=True)
class Request:
    """What to probe.

    Attributes:
        specs: providers, as after ``--kernels``.
        path: folder with unpacked packages, for fla, sglang and vllm.
        only: parts of kernel names; a kernel with any of them is probed, all if there are none.
        recipe: for kernels that claim none.
        spoil: a recipe fault, planted in our kernels.
    """

    specs: tuple[str, ...] = (OURS,)
    path: Path | None = None
    device: str = "cpu"
    only: tuple[str, ...] = ()
    recipe: str = "sglang"
    seed: int = 0
    learnt: Learnt = field(default=())
    spoil: Spoil | None = None


def providers(request: Request) -> list[tuple[str, Provider]]:
    """Load them all first, so that a missing one is known before anything runs.

    Raises:
        EngineEnvironmentError: a package isn't there. UsageError: no such provider, or nothing has such a name.
    """
    try:
        loaded = [
            (spec, load_provider(spec, request.path if spec in _ENGINES else None))
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


def probe_table(request: Request, probes: Sequence[ProbeResult] = (), say: Say = lambda line: None) -> ProbeTable:
    """Probe and put together.

    Args:
        probes: the probes of a run, to be kept beside the table.
        say: gets a line for each kernel as it is done.
    """
    rows: list[ProbeRow] = []
    not_probed: dict[str, str] = {}
    loaded = providers(request)
    for spec, provider in loaded:
        not_probed |= dict(provider.unavailable)
        for found in (each for each in provider.kernels if _chosen(each.name, request)):
            if request.device == "cuda" and not found.runs_on("cuda"):
                not_probed[found.name] = "runs on the CPU only"
                continue
            rows.append(_row(spec, provider, found, request))
            say(f"{found.name} ({found.kind}): {_counted(rows[-1])}")
    warnings = tuple(warning for _, provider in loaded if (warning := provider.warning()))
    return ProbeTable(
        device=request.device,
        seed=request.seed,
        properties=tuple(each.described() for each in PROPERTIES),
        rows=tuple(rows),
        not_probed=dict(sorted(not_probed.items())),
        warnings=warnings,
        probes=tuple(probes),
    )


def _row(spec: str, provider: Provider, found: ProviderKernel, request: Request) -> ProbeRow:
    subject = Subject(
        provider,
        _spoiled(found, request, spec),
        request.device,
        request.recipe,
        seed=request.seed,
        learnt=request.learnt,
    )
    subject = replace(subject, sizes=sizes_for(found, request.device))
    if spec == OURS or request.device == "cuda":
        cells: Iterator[ProbeCell] = (probe(each.name, subject) for each in PROPERTIES)
    else:
        cells = isolated_cells(Isolated(spec, request.path if spec in _ENGINES else None, subject))
    claim = found.claim(subject.case((1,)).inputs)
    return ProbeRow(
        provider=provider.name,
        version=provider.version,
        kernel=found.name,
        kind=found.kind.value,
        form=found.kernel.form,
        recipe=claim or subject.unclaimed(),
        claimed=claim is not None,
        cells=tuple(cells),
    )


def sizes_for(found: ProviderKernel, device: str) -> Sizes:
    """Shapes that the kernel can do in the time that it takes there."""
    sizes = DEVICE if device == "cuda" else SMALL if found.runs_on("cpu") else INTERPRETED
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


def _counted(row: ProbeRow) -> str:
    verdicts = [cell.verdict for cell in row.cells]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"
