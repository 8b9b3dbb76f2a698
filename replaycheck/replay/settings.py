"""What a run is asked to do, resolved: every file found and read, every name known, before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path

from replaycheck.assets import DEFAULT_PRESET, model_dir, suite_file
from replaycheck.audit.labels import AuditMode
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.faults.fault import find_fault
from replaycheck.gates.admission import check_admission
from replaycheck.gates.load import LoadedGates, load_gates
from replaycheck.model.checkpoint import digest, open_checkpoint
from replaycheck.names import did_you_mean
from replaycheck.schedule.parallel import geometry_of, plan_ranks
from replaycheck.schedule.requests import check_playable
from replaycheck.schedule.speculation.early import check_rollback
from replaycheck.schema.arm import Arm, Cell, Effect
from replaycheck.schema.floor import Floors
from replaycheck.schema.suite import Suite, expand
from replaycheck.schema.trace import Group
from replaycheck.subjects.choose import LAB, NO_OPTIONS, find_subject
from replaycheck.subjects.lab.kernels import OURS, KernelChoice, LabKernels, claimed_recipe, lab_kernels
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.traces.suite import find_traces, gate_names, parse_suite
from replaycheck.traces.vocabulary import SIZE
from replaycheck_kernels.recipe import PRESETS

from .free import not_free, refuse_free_subject
from .groups import Groups
from .own_arms import RECIPE, arms_of, possible_for
from .possible import Possible, possible

DEFAULT_KERNELS = KernelChoice()


@dataclass(frozen=True)
class Settings:
    """A run, ready to start."""

    suite: Suite
    suite_digest: str
    groups: Groups
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
    audit: AuditMode = AuditMode.RECORD
    subject: str = LAB
    explain: bool = True  # run a failing case again, step by step, and name its cause
    floor: Floors | None = None  # given; None: the run measures its own
    options: SubjectOptions = NO_OPTIONS  # of a subject other than the lab
    notes: tuple[str, ...] = ()  # what is left out on purpose

    @property
    def device(self) -> str:
        return self.kernels.device

    def inputs(self) -> dict[str, str]:
        """What decides the results; a resumed run must have the same."""
        chosen = {"experiments": ", ".join(self.suite.experiments)} if self.suite.experiments != ("forced",) else {}
        if self.floor is not None:
            chosen["floor"] = str(self.floor.digest)
        if self.notes:
            chosen["groups"] = "; ".join(self.notes)
        return chosen | {
            "suite": self.suite.name,
            "subject": self.subject,
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
    subject: str = LAB,
    options: SubjectOptions = NO_OPTIONS,
    free: bool = False,
) -> tuple[Settings, tuple[str, ...]]:
    """Find and read everything. Returns the settings, and warnings: untested kernels, gates that no selftest has admitted.

    Args:
        recipe: None for the one that the kernels claim, or the suite's.
        free: run the free experiment, too, whatever the suite says.
        admitted: refuse shipped gates without a valid record of admission; selftest, which writes it, doesn't.

    Raises:
        UsageError: something given is wrong. EngineEnvironmentError: the device isn't there.
    """
    require_device(kernels.device)
    if suite and preset:
        raise UsageError(f"a suite file ({str(suite)!r}) and --preset {preset!r} were both given; give one")
    path = suite or suite_file(preset or DEFAULT_PRESET)
    parsed = _suite(path, recipe or claimed_recipe(kernels), free)
    refuse_free_subject(parsed, subject)
    files = find_traces(traces) if traces else find_traces(parsed.traces, path)
    if subject == LAB:
        _refuse_others_options(options)
        computes = _lab(parsed, kernels, faults, model, named=suite is not None)
    else:
        computes = _other(parsed, subject, replace(options, model=model), kernels, named=suite is not None)
        parsed = parsed.model_copy(update=_others(computes, named=suite is not None))
    loaded = tuple(load_gates(str(name)) for name in (gates or gate_names(parsed.gates, path)))
    judged = loaded if admitted else ()
    warnings = tuple(warning for each in judged for warning in check_admission(each, *_shipped_digests(each)))
    wanted = computes.wanted
    settings = Settings(
        parsed,
        digest_files([path, *files]),
        Groups.read(files, lambda group: _check(group, wanted.arms)),
        wanted.arms,
        wanted.cells,
        loaded,
        computes.model,
        computes.digest,
        parsed.recipe,
        tuple(faults),
        seed,
        kernels,
        computes.label,
        (*wanted.not_checked, *not_free(parsed, wanted.arms, wanted.cells)),
        _command(suite, preset, traces, model, recipe, gates, faults, seed, kernels, subject, options)
        + (" --free" if free else ""),
        subject=subject,
        options=replace(options, model=model) if subject != LAB else NO_OPTIONS,
    )
    return settings, (*((computes.warning,) if computes.warning else ()), *warnings)


def _suite(path: Path, recipe: str | None, free: bool) -> Suite:
    """The suite file, under another recipe or with the free experiment where that was asked for."""
    parsed = parse_suite(path)
    experiments = ("forced", "free") if free else parsed.experiments
    return parsed.model_copy(update={"recipe": recipe or parsed.recipe, "experiments": experiments})


@dataclass(frozen=True)
class _Computes:
    """Who computes: the model with its digest, the kernels' name, and the arms and cells that they can do."""

    model: Path
    digest: str
    label: str
    wanted: Possible
    warning: str | None = None
    recipe: str | None = None  # of arms that a subject's own cache asks for; None: the suite's


def _lab(suite: Suite, kernels: KernelChoice, faults: Sequence[str], model: Path | None, named: bool) -> _Computes:
    lab = _lab_kernels(kernels, suite.recipe, faults)
    folder = model_dir(None) if model is None else model
    config = open_checkpoint(folder).config
    if config.vocab_size < SIZE:
        raise UsageError(
            f"{folder}: the model has {config.vocab_size} token ids and the traces' vocabulary {SIZE}; train it on that"
        )
    wanted = possible(*expand(suite), lab, named=named)
    for degree in {arm.tensor_parallel for arm in wanted.arms}:
        plan_ranks(geometry_of(config), degree)
    return _Computes(folder, digest(folder), lab.label, wanted, lab.warning)


def _other(suite: Suite, subject: str, options: SubjectOptions, kernels: KernelChoice, named: bool) -> _Computes:
    if replace(kernels, device="cpu") != DEFAULT_KERNELS:
        raise UsageError(f"--subject {subject}: it has no --kernels of the lab; leave them out")
    found = find_subject(subject, options).describe()
    if found.policy is not None and not named:
        wanted, recipe = arms_of(found, found.policy), RECIPE
    else:
        wanted, recipe = possible_for(found, *expand(suite), named=named), None
    return _Computes(Path(found.name), found.digest, found.name, wanted, recipe=recipe)


def _refuse_others_options(options: SubjectOptions) -> None:
    if options.url or options.engine_model or options.settings:
        raise UsageError(
            "--url, --engine-model and --subject-option are for subjects other than the lab; give --subject NAME"
        )


def _others(computes: _Computes, named: bool) -> dict[str, object]:
    """What a shipped suite can't say for a subject: how its kernels round, and the gates if no cell must be exact."""
    found: dict[str, object] = {} if computes.recipe is None else {"recipe": computes.recipe}
    if not named and all(cell.effect is not Effect.EXACT for cell in computes.wanted.cells):
        found["gates"] = ("server",)
    return found


def _check(group: Group, arms: Sequence[Arm]) -> None:
    check_playable(group)
    check_rollback((group,), arms)


def _lab_kernels(kernels: KernelChoice, name: str, faults: Sequence[str]) -> LabKernels:
    """The kernels that run the recipe of that name, as the faults leave it."""
    if name not in PRESETS:
        raise UsageError(
            f"unknown recipe {name!r}{did_you_mean(name, PRESETS)}; choose one of {', '.join(sorted(PRESETS))}"
        )
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
    subject: str,
    options: SubjectOptions,
) -> str:
    """The command line that repeats a run with these inputs."""
    named = {"--preset": preset, "--model": model, "--recipe": recipe, "--seed": seed or None}
    named["--subject"] = None if subject == LAB else subject
    # An address is no part of a result; the reader puts in where their own server is.
    named |= {"--url": "URL" if options.url else None, "--engine-model": options.engine_model}
    if kernels != DEFAULT_KERNELS:
        tuned = None if kernels.autotune == DEFAULT_KERNELS.autotune else kernels.autotune
        named |= {"--kernels": kernels.spec, "--kernels-path": kernels.path, "--device": kernels.device}
        named |= {"--autotune": tuned}
    pairs = [(name, str(value)) for name, value in named.items() if value is not None]
    settings = tuple(f"{name}={'URL' if name.endswith('url') else value}" for name, value in options.settings)
    for name, values in (
        ("--traces", traces),
        ("--gates", gates),
        ("--fault", faults),
        ("--subject-option", settings),
    ):
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
        with path.open("rb") as handle:
            state.update(file_digest(handle, blake2b).digest())
    return state.hexdigest()


def _shipped_digests(loaded: LoadedGates) -> tuple[str | None, str | None]:
    """What a shipped gate file must have been admitted with: the shipped model and its suite as they are now."""
    if not loaded.shipped:
        return None, None
    return digest(model_dir(None)), admission_suite_digest(loaded.over_noise)


def admission_suite_digest(over_noise: bool) -> str:
    """The digest of what selftest plants its faults in: the preset ``quick`` with its traces, or small groups of them.

    ``over_noise``: of gates that need floors and several traces it is the traces of ``ci``, under arms of its own.
    """
    path = suite_file("ci" if over_noise else DEFAULT_PRESET)
    traces = find_traces(parse_suite(path).traces, path)
    return digest_files(traces if over_noise else [path, *traces])
