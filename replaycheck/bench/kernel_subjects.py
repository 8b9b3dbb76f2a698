"""From ``--kernels`` to kernels that can be timed: the one that each provider would itself run for each form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck_kernels.contract import KdaInputs, SnapshotRow, SnapshotSource, StateKernel
from replaycheck_kernels.providers import MissingPackage, ProviderError, load_provider
from replaycheck_kernels.recipe import preset
from replaycheck_kernels.registry import KERNELS, ours

from .entries import PLACES, Call, Entries, Entry

OURS = "ours"
_FORMS = ("chunk", "recurrent")
_RECIPE = "sglang"
"""What our kernels run; others run what they claim."""
_ON_CPU = ("ours/chunk-emulator", "ours/recurrent-cpu", "ours/recurrent-torch")


@dataclass(frozen=True)
class Subject:
    """One kernel. claim: the recipe that it is asked for, by the inputs."""

    kernel: StateKernel
    claim: Callable[[KdaInputs], str]
    entry: Entry | None

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def snapshots(self) -> bool:
        """Whether it has an fp32 snapshot inside a call."""
        return self.kernel.form == "chunk" and SnapshotSource.ACCUMULATOR in self.kernel.sources

    def within(
        self, inputs: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], action: Callable[[Call], object]
    ) -> None:
        """Prepare a call and give it to ``action``, where it can be repeated."""
        call = partial(self.kernel, inputs, initial, rows, preset(self.claim(inputs)))
        if self.entry is None:
            action(call)
        else:
            self.entry.within(call, action)


@dataclass(frozen=True)
class Subjects:
    """versions: of the providers. missing: kernels that can't be timed, and why."""

    found: tuple[Subject, ...]
    versions: dict[str, str]
    missing: tuple[str, ...]

    def of(self, form: str) -> list[Subject]:
        return [each for each in self.found if each.kernel.form == form]


def split_specs(specs: Sequence[str]) -> tuple[str, ...]:
    """``ours,fla`` means the same as two options; each name once."""
    names = [name.strip() for spec in specs for name in spec.split(",") if name.strip()]
    return tuple(dict.fromkeys(names)) or (OURS,)


def subjects(specs: Sequence[str], path: Path | None, device: str) -> Subjects:
    """Load what was named.

    Raises:
        UsageError: no such provider, or one that needs a GPU. EngineEnvironmentError: its package isn't there.
    """
    others = [spec for spec in specs if spec != OURS]
    if others and device == "cpu":
        raise UsageError(f"--kernels {','.join(others)} --device cpu: these kernels run on a GPU; give --device cuda")
    entries = Entries()
    found: list[Subject] = []
    versions: dict[str, str] = {}
    missing: list[str] = []
    with entries.installed():
        for spec in specs:
            if spec == OURS:
                found += _ours(device, entries, missing)
            else:
                found += _provided(spec, path, device, entries, versions, missing)
    return Subjects(tuple(found), versions, tuple(missing))


def _ours(device: str, entries: Entries, missing: list[str]) -> list[Subject]:
    if device == "cpu":
        kernels = [KERNELS[name] for name in _ON_CPU if name in KERNELS]
    else:
        registered = ours(preset(_RECIPE), device)
        kernels = [kernel for kernel in registered.values() if kernel.name in PLACES]
        missing += [
            f"{kernel.name} isn't compiled; not timed" for kernel in registered.values() if kernel not in kernels
        ]
    return [Subject(kernel, lambda inputs: _RECIPE, entries.of(kernel.name)) for kernel in kernels]


def _provided(
    spec: str, path: Path | None, device: str, entries: Entries, versions: dict[str, str], missing: list[str]
) -> list[Subject]:
    try:
        provider = load_provider(spec, None if ":" in spec else path)
    except MissingPackage as error:
        raise EngineEnvironmentError(str(error)) from None
    except ProviderError as error:
        raise UsageError(str(error)) from None
    versions[provider.name] = provider.version
    found = []
    for form in _FORMS:
        try:
            each = provider.kernel("kda", form, device)
        except ProviderError as error:
            missing.append(str(error))
            continue
        chosen = partial(_claim, each.claim, each.kernel)
        found.append(Subject(each.kernel, chosen, entries.of(each.name)))
    return found


def _claim(claim: Callable[[KdaInputs], str | None], kernel: StateKernel, inputs: KdaInputs) -> str:
    """The recipe that a kernel claims for a call, or any that it takes."""
    return claim(inputs) or next(iter(sorted(kernel.recipes or ())), _RECIPE)
