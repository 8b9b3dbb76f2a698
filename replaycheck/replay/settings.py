"""What a run is asked to do, resolved: every file found and read, every name known, before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from replaycheck.assets import DEFAULT_PRESET, model_dir, suite_file
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.faults.fault import find_fault
from replaycheck.gates.admission import check_admission
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.model.checkpoint import digest, open_checkpoint
from replaycheck.schedule.parallel import geometry_of, plan_ranks
from replaycheck.schedule.requests import check_playable
from replaycheck.schedule.speculation.early import check_rollback
from replaycheck.schema.arm import Arm, Cell
from replaycheck.schema.suite import Suite, expand
from replaycheck.schema.trace import Group
from replaycheck.subjects.lab.kernels import OURS, KernelChoice, LabKernels, claimed_recipe, lab_kernels
from replaycheck.traces.read import read_groups
from replaycheck.traces.suite import find_traces, parse_suite
from replaycheck.traces.vocabulary import SIZE
from replaycheck_kernels.recipe import PRESETS

from .possible import possible

DEFAULT_KERNELS = KernelChoice()


@dataclass(frozen=True)
class Settings:
    """A run, ready to start."""

    suite: Suite
    suite_digest: str
    groups: tuple[Group, ...]
    arms: tuple[Arm, ...]
    cells: tuple[Cell, ...]
    gates: tuple[LoadedGates, ...]
    model: Path
    model_digest: str
    recipe: str
    faults: tuple[str, ...]
    seed: int
    kernels: KernelChoice
    label: str
    not_checked: tuple[str, ...]
    reproduce: str

    @property
    def device(self) -> str:
        return self.kernels.device

    def inputs(self) -> dict[str, str]:
        """What decides the results; a resumed run must have the same."""
        return {
            "suite": self.suite.name,
            "suite digest": self.suite_digest,
            "model digest": self.model_digest,
            "recipe": self.recipe,
            "faults": ", ".join(self.faults),
            "gates": ", ".join(loaded.name for loaded in self.gates),
            "seed": str(self.seed),
            "kernels": self.label,
            "autotune": "" if self.kernels.spec == OURS else str(self.kernels.autotune),
            "device": self.device,
        }


def resolve(
    suite: Path | None = None,
    preset: str | None = None,
    traces: Sequence[str] = (),
    model: Path | None = None,
    recipe: str | None = None,
    gates: Sequence[str] = (),
    faults: Sequence[str] = (),
    seed: int = 0,
    kernels: KernelChoice = DEFAULT_KERNELS,
    admitted: bool = True,
) -> tuple[Settings, tuple[str, ...]]:
    """Find and read everything. Returns the settings, and warnings: untested kernels, gates that no selftest has admitted.

    Args:
        recipe: None for the one that the kernels claim, or the suite's.
        admitted: refuse shipped gates without a valid record of admission; selftest, which writes it, doesn't.

    Raises:
        UsageError: something given is wrong. EngineEnvironmentError: the device isn't there.
    """
    require_device(kernels.device)
    if suite and preset:
        raise UsageError(f"a suite file ({str(suite)!r}) and --preset {preset!r} were both given; give one")
    path = suite or suite_file(preset or DEFAULT_PRESET)
    parsed = parse_suite(path)
    parsed = parsed.model_copy(update={"recipe": recipe or claimed_recipe(kernels) or parsed.recipe})
    lab = _lab_kernels(kernels, parsed.recipe, faults)
    files = find_traces(traces) if traces else find_traces(parsed.traces, path)
    folder = model_dir(None) if model is None else model
    config = open_checkpoint(folder).config
    if config.vocab_size < SIZE:
        raise UsageError(
            f"{folder}: the model has {config.vocab_size} token ids and the traces' vocabulary {SIZE}; train it on that"
        )
    loaded = tuple(load_gates(str(name)) for name in (gates or parsed.gates))
    judged = loaded if admitted else ()
    warnings = tuple(warning for each in judged for warning in check_admission(each, *_shipped_digests(each)))
    wanted = possible(*expand(parsed), lab, named=suite is not None)
    for degree in {arm.tensor_parallel for arm in wanted.arms}:
        plan_ranks(geometry_of(config), degree)
    groups = _groups(files)
    check_rollback(groups, wanted.arms)
    settings = Settings(
        parsed,
        digest_files([path, *files]),
        groups,
        wanted.arms,
        wanted.cells,
        loaded,
        folder,
        digest(folder),
        parsed.recipe,
        tuple(faults),
        seed,
        kernels,
        lab.label,
        wanted.not_checked,
        _command(suite, preset, traces, model, recipe, gates, faults, seed, kernels),
    )
    return settings, (*((lab.warning,) if lab.warning else ()), *warnings)


def _lab_kernels(kernels: KernelChoice, name: str, faults: Sequence[str]) -> LabKernels:
    """The kernels that run the recipe of that name, as the faults leave it."""
    if name not in PRESETS:
        raise UsageError(f"unknown recipe {name!r}; choose one of {', '.join(sorted(PRESETS))}")
    recipe = PRESETS[name]
    for spoil in (find_fault(fault).recipe for fault in faults):
        recipe = spoil(recipe) if spoil else recipe
    return lab_kernels(kernels, recipe)


def _command(
    suite: Path | None,
    preset: str | None,
    traces: Sequence[str],
    model: Path | None,
    recipe: str | None,
    gates: Sequence[str],
    faults: Sequence[str],
    seed: int,
    kernels: KernelChoice,
) -> str:
    """The command line that repeats a run with these inputs."""
    named = {"--preset": preset, "--model": model, "--recipe": recipe, "--seed": seed or None}
    if kernels != DEFAULT_KERNELS:
        tuned = None if kernels.autotune == DEFAULT_KERNELS.autotune else kernels.autotune
        named |= {"--kernels": kernels.spec, "--kernels-path": kernels.path, "--device": kernels.device}
        named |= {"--autotune": tuned}
    pairs = [(name, str(value)) for name, value in named.items() if value is not None]
    for name, values in (("--traces", traces), ("--gates", gates), ("--fault", faults)):
        pairs += [(name, value) for value in values]
    words = ["replaycheck", "run", *([str(suite)] if suite else []), *(word for pair in pairs for word in pair)]
    return shlex.join(words)


def require_device(device: str) -> None:
    """A GPU needs torch's CUDA build and Triton; what is missing is said."""
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        raise EngineEnvironmentError(
            "--device cuda: torch sees no GPU here; use --device cpu, or see `replaycheck doctor`"
        )
    if find_spec("triton") is None:
        raise EngineEnvironmentError("--device cuda: Triton isn't installed; pip install triton, or use --device cpu")


def digest_files(paths: Sequence[Path]) -> str:
    """BLAKE2b (128 bits) over the contents, in order."""
    state = blake2b(digest_size=16)
    for path in paths:
        state.update(blake2b(path.read_bytes()).digest())
    return state.hexdigest()


def _shipped_digests(loaded: LoadedGates) -> tuple[str | None, str | None]:
    """What a shipped gate file must have been admitted with: the shipped model and its suite as they are now."""
    if not loaded.shipped:
        return None, None
    return digest(model_dir(None)), admission_suite_digest()


def admission_suite_digest() -> str:
    """The digest of the suite that selftest plants its faults in: the quick preset with its traces."""
    path = suite_file(DEFAULT_PRESET)
    return digest_files([path, *find_traces(parse_suite(path).traces, path)])


def _groups(files: Sequence[Path]) -> tuple[Group, ...]:
    groups: dict[str, tuple[Group, Path]] = {}
    for path in files:
        for group in read_groups(path):
            if group.group in groups:
                other = groups[group.group][1]
                raise UsageError(f"group {group.group!r} is in {other} and in {path}; rename one of them")
            check_playable(group)
            groups[group.group] = group, path
    return tuple(group for group, _ in groups.values())
