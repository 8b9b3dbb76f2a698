"""Both benchmarks from options to a record, and the folder that ``--out`` asks for.

bench.json         figures, targets, notes
environment.json   versions, device, command, times
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.json_files import write_json
from replaycheck.model.checkpoint import open_checkpoint
from replaycheck.replay.environment import describe, finished
from replaycheck.replay.settings import Settings, require_device
from replaycheck.replay.stage import work_of
from replaycheck.replay.store import Run, create_run
from replaycheck.say import Say
from replaycheck.schema.bench import Bench
from replaycheck.schema.environment import Environment
from replaycheck.subjects.lab.kernels import OURS
from replaycheck_kernels.providers.tuning import bound_autotuning

from .kernel_subjects import Subjects, split_specs, subjects
from .kernels import bench_kernels
from .profile import profile
from .sharing import count
from .sides import DTYPE_RECIPES, Setup
from .whole import compare_sides, profile_figures, shared_figures
from .workload import Sizes, text_of


@dataclass(frozen=True)
class RunOptions:
    """What ``bench run`` is asked for, beside its settings.

    Attributes:
        alone: sessions of the runs that take one at a time. dtype: of activations, on both sides.
        against: compare with transformers. sharing: count what arms share. groups: of the preset in the profile; 0: all.
    """

    sizes: Sizes
    alone: int
    repeats: int
    dtype: str
    threads: int
    against: bool = True
    sharing: bool = True
    profiled: bool = False
    groups: int = 0


def run(settings: Settings, options: RunOptions, out: Path | None, say: Say) -> Bench:
    """Measure, and write the folder if there is to be one. It is refused before anything runs.

    Raises:
        UsageError: kernels that don't compute in that dtype; a folder that isn't empty.
        EngineEnvironmentError: transformers or the device isn't there.
    """
    setup = _setup(settings, options)
    given = _run_settings(settings, options, setup)
    place = Place.make(settings.device, given, out)
    found = compare_sides(setup, options.sizes, options.alone, options.repeats, options.against, say)
    if options.sharing:
        say("what arms share")
        config = open_checkpoint(settings.model).config
        found.figures += shared_figures(settings.suite.name, count(config, settings.groups, settings.arms, say))
    if options.profiled:
        if settings.device == "cuda":
            bound_autotuning(settings.kernels.autotune)
        chosen = range(len(settings.groups))[: options.groups or None]
        say(f"profile of {len(chosen)} groups of {settings.suite.name} with {len(settings.arms)} arms")
        figures, targets = profile_figures(
            settings.suite.name,
            profile(work_of(settings), [settings.groups[index] for index in chosen], settings.device, say),
        )
        found.figures += figures
        found.targets += targets
    return place.keep(
        Bench(
            kind="run",
            device=settings.device,
            device_name=place.device_name,
            versions=dict(place.environment.versions),
            settings=given | found.facts,
            figures=tuple(found.figures),
            targets=tuple(found.targets),
            notes=tuple(found.notes),
        )
    )


def _setup(settings: Settings, options: RunOptions) -> Setup:
    recipe = DTYPE_RECIPES[options.dtype]
    if settings.kernels.spec != OURS:
        if options.dtype != "bf16":
            raise UsageError(
                f"--kernels {settings.kernels.spec} --dtype {options.dtype}: these kernels take --dtype bf16"
            )
        recipe = settings.recipe
    return Setup(
        side="lab",
        model=settings.model.resolve(),
        dtype=options.dtype,
        device=settings.device,
        threads=options.threads,
        text=tuple(text_of(settings.groups)),
        recipe=recipe,
        kernels=settings.kernels.spec,
        kernels_path=settings.kernels.path,
        autotune=settings.kernels.autotune,
    )


def _run_settings(settings: Settings, options: RunOptions, setup: Setup) -> dict[str, str]:
    sizes = options.sizes
    return {
        "preset": settings.suite.name,
        "model digest": settings.model_digest,
        "sessions": f"{sizes.sessions} ({min(options.alone, sizes.sessions)} one at a time)",
        "turns": str(sizes.turns),
        "tokens a turn": f"{sizes.prompt} + {sizes.answer}",
        "arms": "cold, warm",
        "dtype": options.dtype,
        "threads": str(options.threads),
        "recipe": setup.recipe,
        "kernels": settings.label,
    } | _tuning(settings.device, setup.autotune)


def _tuning(device: str, autotune: int) -> dict[str, str]:
    """Which configurations Triton may choose from; on the CPU nothing is tuned."""
    return {"autotune": str(autotune) if autotune else "all"} if device == "cuda" else {}


def kernels(
    specs: tuple[str, ...],
    path: Path | None,
    device: str,
    runs: int,
    seed: int,
    autotune: int,
    out: Path | None,
    say: Say,
) -> Bench:
    """Time state kernels.

    Raises:
        UsageError: an unknown provider; a folder that isn't empty. EngineEnvironmentError: no GPU, or a missing package.
    """
    require_device(device)
    if device == "cuda":
        bound_autotuning(autotune)
    found: Subjects = subjects(split_specs(specs), path, device)
    given = {"kernels": ",".join(split_specs(specs)), "runs": str(runs), "seed": str(seed)}
    given |= _tuning(device, autotune)
    place = Place.make(device, given, out)
    figures, targets, notes = bench_kernels(found, device, runs, seed, say=say)
    return place.keep(
        Bench(
            kind="kernels",
            device=device,
            device_name=place.device_name,
            versions={**place.environment.versions, **found.versions},
            settings=given,
            figures=figures,
            targets=targets,
            notes=notes,
        )
    )


@dataclass(frozen=True)
class Place:
    """Where a bench runs, and the folder that it goes to, if any."""

    environment: Environment
    folder: Run | None

    @staticmethod
    def make(device: str, given: Mapping[str, str], out: Path | None) -> Place:
        environment = describe(given, device, _accelerator(device))
        return Place(environment, create_run(environment, out) if out else None)

    @property
    def device_name(self) -> str:
        environment = self.environment
        return environment.device_name or f"{environment.cpu or 'unknown'}, {environment.cores} cores"

    def keep(self, bench: Bench) -> Bench:
        if self.folder is not None:
            write_json(self.folder.path / "bench.json", bench)
            write_json(self.folder.environment, finished(self.environment))
        return bench


def _accelerator(device: str) -> str | None:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else None
