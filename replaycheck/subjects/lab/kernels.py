"""Whose kernels the lab runs, on which device, and which arms they can't do.

``ours`` has a kernel for every recipe; another provider brings the recipe that it claims. What can't be done is said before
anything runs: a kernel without an fp32 snapshot inside a call can't store checkpoints there, and a pool dtype that an engine
doesn't store its states in isn't tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from replaycheck.autotuning import REPLAYED
from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.schema.arm import Arm, Compiler, PoolDtype, Rollback
from replaycheck_kernels.contract import KdaInputs, KdaOutput, SnapshotRow, SnapshotSource, StateKernel, concatenate
from replaycheck_kernels.providers import MissingPackage, Provider, ProviderError, ProviderKernel, load_provider
from replaycheck_kernels.providers.loading import ENGINES, OURS
from replaycheck_kernels.recipe import PRESETS, Recipe
from replaycheck_kernels.registry import ours

from .pool import TORCH_DTYPE
from .rollback import no_recover

__all__ = ["OURS", "FormKernel", "KernelChoice", "LabKernels", "claimed_recipe", "lab_kernels"]

_FORMS = ("chunk", "recurrent")
_ALL_POOLS = frozenset(PoolDtype)


@dataclass(frozen=True)
class KernelChoice:
    """``--kernels``, ``--kernels-path`` and ``--device``: plain data that a worker gets.

    Attributes:
        autotune: configurations that Triton times for a kernel, 0 for all.
    """

    spec: str = OURS
    path: Path | None = None
    device: str = "cpu"
    autotune: int = REPLAYED


@dataclass(frozen=True)
class FormKernel:
    """The kernel of one form. pools: dtypes that its states are stored in. interior: fp32 snapshots inside a call."""

    kernel: StateKernel
    pools: frozenset[PoolDtype] = _ALL_POOLS
    interior: bool = True


@dataclass(frozen=True)
class LabKernels:
    """Attributes:
    label: the provider with its version, as results show it. warning: of a version that wasn't tested.
    no_recover: why RecoverSSM can't be run, if it can't.
    """

    forms: Mapping[str, FormKernel]
    label: str = OURS
    warning: str | None = None
    no_recover: str | None = None

    def kernels(self) -> dict[str, StateKernel]:
        """By form, as a network takes them."""
        return {form: each.kernel for form, each in self.forms.items()}

    def cannot(self, arm: Arm) -> str | None:
        """Why an arm can't be run, or None if it can."""
        for form in dict.fromkeys((arm.history, arm.tail, arm.answer)):
            if arm.pool not in self.forms[form].pools:
                return f"{self.forms[form].kernel.name} has no {arm.pool} pool"
        if arm.rollback is Rollback.RECOVER and self.no_recover:
            return self.no_recover
        inside = arm.policy.interior and arm.compiler is not Compiler.COLD
        if inside and not self.forms[arm.history].interior:
            return f"{self.forms[arm.history].kernel.name} has no fp32 snapshot inside a call"
        return None


def claimed_recipe(choice: KernelChoice) -> str | None:
    """The recipe that a provider's chunk kernel claims; None for ours and where none is claimed."""
    if choice.spec == OURS:
        return None
    return next(iter(_find(_provider(choice), "chunk", choice.device).can.claims), None)


def lab_kernels(choice: KernelChoice, recipe: Recipe) -> LabKernels:
    """The kernels that run the lab.

    Args:
        recipe: a preset, or one that a fault has changed.

    Raises:
        UsageError: no such provider, or its kernels don't run that recipe. EngineEnvironmentError: its package isn't there.
    """
    if choice.spec == OURS:
        forms = {form: FormKernel(kernel) for form, kernel in ours(recipe, choice.device).items()}
        return LabKernels(forms, no_recover=no_recover(recipe, choice.device))
    provider = _provider(choice)
    found = {form: _find(provider, form, choice.device) for form in _FORMS}
    for each in found.values():
        _refuse_other_recipes(each, recipe)
    label = f"{provider.name} {provider.version}".strip()
    alone = "RecoverSSM's verify and rebuild are ours, beside another provider's decode kernel they prove nothing of it"
    return LabKernels({form: _form(each) for form, each in found.items()}, label, provider.warning(), alone)


def _provider(choice: KernelChoice) -> Provider:
    try:
        return load_provider(choice.spec, choice.path if choice.spec in ENGINES else None)
    except MissingPackage as error:
        raise EngineEnvironmentError(str(error)) from None
    except ProviderError as error:
        raise UsageError(str(error)) from None


def _find(provider: Provider, form: str, device: str) -> ProviderKernel:
    try:
        return provider.kernel("kda", form, device)
    except ProviderError as error:
        hint = "; try --device cuda" if device == "cpu" else ""
        raise UsageError(f"--kernels {provider.name} --device {device}: {error}{hint}") from None


def _refuse_other_recipes(found: ProviderKernel, recipe: Recipe) -> None:
    """A compiled kernel computes what it computes, whatever it is asked for."""
    allowed = found.kernel.recipes
    if allowed is None:
        return
    if recipe.name not in allowed:
        raise UsageError(f"{found.name} doesn't run recipe {recipe.name!r}; it runs {', '.join(sorted(allowed))}")
    if recipe != PRESETS[recipe.name]:
        raise UsageError(f"a fault in the arithmetic can't enter {found.name}; plant it with --kernels ours")


def _form(found: ProviderKernel) -> FormKernel:
    pools = frozenset(pool for pool, dtype in TORCH_DTYPE.items() if dtype in found.can.pool_dtypes)
    kernel = _one_sequence_a_call(found.kernel) if found.choose else found.kernel
    return FormKernel(kernel, pools, SnapshotSource.ACCUMULATOR in kernel.sources)


def _one_sequence_a_call(kernel: StateKernel) -> StateKernel:
    """For a kernel that computes otherwise in large launches: batch mates must not decide what a row gets."""

    def forward(x: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        outputs = []
        for r in range(x.sequences):
            mine = [replace(row, sequence=0) for row in rows if row.sequence == r]
            outputs.append(kernel.forward(x.between(r, r + 1), initial[r : r + 1], mine, recipe))
        order = sorted(range(len(rows)), key=lambda i: rows[i].sequence)
        together = concatenate(outputs)
        back = torch.tensor([order.index(i) for i in range(len(rows))], dtype=torch.long, device=initial.device)
        return replace(together, snapshots=together.snapshots[back])

    return replace(kernel, forward=forward)
