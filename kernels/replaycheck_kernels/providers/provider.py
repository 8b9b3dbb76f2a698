"""What a source of kernels declares: its kernels for each model kind and form, and what each of them can do.

A provider's recipe is a claim: ``probe kernels`` compares it with the emulator. Everything else that a kernel declares
(layout, pool dtypes, decays, widths) is checked before each call; what it can't do is refused, never replaced.

    ProviderError(ValueError)      a provider that doesn't exist, a kernel that it lacks, a call that the kernel can't do
    └── MissingPackage             the package, or something that it needs, can't be imported: says what to install
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import torch
from torch import Tensor

from ..contract import Forward, KdaInputs, KdaOutput, SnapshotRow, StateKernel
from ..recipe import Recipe


class ProviderError(ValueError):
    """A provider or kernel that can't be had; the text is one line and says what there is instead."""


class MissingPackage(ProviderError):
    """A package that a provider needs isn't there; the text says what to install."""


class ModelKind(StrEnum):
    """Which recurrence a kernel computes."""

    #: Kimi Delta Attention: a decay for each key channel
    KDA = "kda"
    #: Gated DeltaNet: one decay for each head
    GDN = "gdn"


class Decay(StrEnum):
    """How a raw decay becomes a log decay g."""

    #: g = −exp(A_log)·softplus(a + dt_bias)
    SOFTPLUS = "softplus"
    #: g = lower_bound·sigmoid(exp(A_log)·(a + dt_bias))
    LOWER_BOUND = "lower-bound"


@dataclass(frozen=True)
class PoolResult:
    """o: [N, HV, V]; taps: the state [HV, V, K] of each snapshot row that isn't a final state."""

    o: Tensor
    taps: Mapping[SnapshotRow, Tensor] = field(default_factory=dict)


PoolForward = Callable[[KdaInputs, Tensor, Sequence[int], Sequence[SnapshotRow], Recipe], PoolResult]
"""A call as the engine makes it: reads and writes pool [slots, HV, V, K] in place, in the pool's dtype, at one slot a
sequence."""


Expose = Callable[[], AbstractContextManager[dict[str, Tensor]]]
"""A context in which one call of the kernel is made; its dictionary holds the kernel's intermediates when it ends."""


@dataclass(frozen=True)
class Capabilities:
    """What one kernel of a provider can do.

    Attributes:
        claims: presets that the kernel is said to compute, the usual one first; none where no preset describes it.
        layout: the order in which the kernel itself keeps a state. The contract's states are [V, K] either way.
        pool_dtypes: dtypes that the engine stores this kernel's states in.
        decays: forms of the decay.
        devices: where it runs; ``cpu`` for a Triton kernel means the interpreter and isn't listed.
        widest_key, widest_value: largest K and V.
        equal_widths: K and V must be the same.
        grouped_values: may have more value heads than key heads.
        snapshots_a_call: most interior snapshots of one sequence in one call of the engine; None means any number.
            The adapter calls again for each further one, which costs time and changes nothing else.
        first_slot: the lowest pool slot that may hold a state; 1 where slot 0 is the null slot.
        note: what else the reader of a table should know.
    """

    claims: tuple[str, ...]
    layout: Literal["V,K", "K,V"] = "V,K"
    pool_dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16, torch.float16)
    decays: frozenset[Decay] = frozenset(Decay)
    devices: frozenset[str] = frozenset({"cuda"})
    widest_key: int = 256
    widest_value: int = 256
    equal_widths: bool = False
    grouped_values: bool = False
    snapshots_a_call: int | None = None
    first_slot: int = 0
    note: str = ""


@dataclass(frozen=True)
class ProviderKernel:
    """A kernel with what it can do.

    Attributes:
        on_pool: the engine's own in-place call, where it has one.
        choose: which of its claims holds for a call, where the launch decides it.
        expose: its intermediates, by the names and in the layouts of ``replaycheck_kernels.intermediates``.
    """

    kind: ModelKind
    kernel: StateKernel
    can: Capabilities
    on_pool: PoolForward | None = None
    choose: Callable[[KdaInputs], str] | None = None
    expose: Expose | None = None

    @property
    def name(self) -> str:
        """What reports call the kernel."""
        return self.kernel.name

    def runs_on(self, device: str) -> bool:
        """Whether it runs on ``cpu`` or ``cuda`` without an interpreter."""
        return device in self.can.devices

    def claim(self, inputs: KdaInputs) -> str | None:
        """The preset that this call is said to compute; None if there is none."""
        if self.choose is not None:
            return self.choose(inputs)
        return next(iter(self.can.claims), None)


@dataclass(frozen=True)
class Provider:
    """A named set of kernels.

    Attributes:
        name: as given on the command line.
        version: version of the package; "" for our own kernels.
        tested: versions that this adapter was tested with.
        kernels: first the one that the engine itself would run for a kind and form, then variants.
        unavailable: kernels that should be there but can't be loaded, with the reason in one line.
    """

    name: str
    kernels: tuple[ProviderKernel, ...]
    version: str = ""
    tested: tuple[str, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def kernel(self, kind: ModelKind | str, form: str, device: str | None = None) -> ProviderKernel:
        """The first kernel of that kind and form that runs on ``device`` (any device if None).

        Raises:
            ProviderError: there is none; the text lists what there is, or says why it couldn't be loaded.
        """
        for found in self.kernels:
            if found.kind == kind and found.kernel.form == form and (device is None or found.runs_on(device)):
                return found
        place = f" on {device}" if device else ""
        raise ProviderError(f"provider {self.name!r} has no {form} kernel for {kind}{place}; {self._choices()}")

    def named(self, name: str) -> ProviderKernel:
        """The kernel of that name.

        Raises:
            ProviderError: there is none.
        """
        for found in self.kernels:
            if found.name == name:
                return found
        raise ProviderError(f"provider {self.name!r} has no kernel {name!r}; {self._choices()}")

    def forms(self, kind: ModelKind | str) -> list[str]:
        """Forms of a kind, each once, in order."""
        return list(dict.fromkeys(found.kernel.form for found in self.kernels if found.kind == kind))

    def warning(self) -> str | None:
        """One line if this version wasn't tested; it runs all the same."""
        if not self.tested or self.version in self.tested:
            return None
        return f"{self.name} {self.version or 'of unknown version'} is untested; tested: {', '.join(self.tested)}"

    def _choices(self) -> str:
        there = ", ".join(found.name for found in self.kernels) or "nothing"
        broken = "; ".join(f"{name}: {reason}" for name, reason in self.unavailable.items())
        return f"it has {there}" + (f" (not loaded: {broken})" if broken else "")


def checked(name: str, kind: ModelKind, can: Capabilities, forward: Forward) -> Forward:
    """``forward`` behind a check of the inputs against the declared capabilities.

    Raises:
        ProviderError: from the call, where the inputs ask for more than ``can`` says; it names the kernel and what it does.
    """

    def call(inputs: KdaInputs, initial: Tensor, rows: Sequence[SnapshotRow], recipe: Recipe) -> KdaOutput:
        refuse_what_it_cannot(name, kind, can, inputs)
        return forward(inputs, initial, rows, recipe)

    return call


def refuse_what_it_cannot(name: str, kind: ModelKind, can: Capabilities, inputs: KdaInputs) -> None:
    """Raise ProviderError where the inputs ask for more than the kernel declares."""
    heads, key, value_heads, value = *inputs.k.shape[1:], *inputs.v.shape[1:]
    decay = Decay.SOFTPLUS if inputs.lower_bound is None else Decay.LOWER_BOUND
    channels = 1 if kind is ModelKind.GDN else key
    wrong = [
        (decay not in can.decays, f"the {decay} decay", f"does {', '.join(sorted(can.decays))}"),
        (key > can.widest_key or value > can.widest_value, f"K={key}, V={value}", f"goes up to K={can.widest_key}"),
        (can.equal_widths and key != value, f"K={key}, V={value}", "needs K = V"),
        (
            value_heads != heads and not can.grouped_values,
            f"{value_heads} value heads",
            f"needs {heads}, as of q and k",
        ),
        (inputs.a.shape[-1] != channels, f"a {tuple(inputs.a.shape)}", f"needs {channels} in the last axis for {kind}"),
    ]
    for bad, given, allowed in wrong:
        if bad:
            raise ProviderError(f"{name} can't run {given}; it {allowed}")
