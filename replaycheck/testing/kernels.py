"""Probes of one kernel in somebody's own tests, and what a failure says."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Literal

import torch

from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.probes.properties import NAMES as PROPERTY_NAMES
from replaycheck.probes.properties import probe
from replaycheck.probes.subject import DEVICE, SMALL, Sizes, Subject
from replaycheck.schema.probe_table import ProbeCell
from replaycheck_kernels.contract import Forward, SnapshotSource, StateKernel
from replaycheck_kernels.providers import Capabilities, ModelKind, PoolForward, Provider, ProviderKernel
from replaycheck_kernels.recipe import PRESETS

__all__ = ["DEVICE", "PROPERTY_NAMES", "SMALL", "AnyKernel", "ProbeCell", "Sizes", "assert_kernel", "probe_kernel",
           "provided", "running_test"]  # fmt: skip

AnyKernel = ProviderKernel | StateKernel | Forward


def probe_kernel(
    kernel: AnyKernel,
    recipe: str = "exact",
    properties: Iterable[str] | None = None,
    *,
    kind: str = "kda",
    form: Literal["chunk", "recurrent"] = "chunk",
    sources: Collection[str] = ("final",),
    on_pool: PoolForward | None = None,
    device: str = "cpu",
    sizes: Sizes | None = None,
    seed: int = 0,
) -> tuple[ProbeCell, ...]:
    """Probe and return the cells, without judging.

    Args:
        kernel: what to probe. ``kind``, ``form``, ``sources`` and ``on_pool`` describe a function; a StateKernel brings its
            own form and sources, a ProviderKernel everything.
        recipe: the preset that the kernel claims to compute; its rounding points predict the allowed error.
        properties: names from ``PROPERTY_NAMES``; all by default.
        sources: snapshots that a function can give: accumulator, chunk-state, final.
        on_pool: the in-place call on a pool, if there is one, for the properties of stores.
        sizes: heads, widths, lengths, batches; ``SMALL`` on the CPU and ``DEVICE`` on a GPU by default.

    Raises:
        UsageError: no such recipe or property.
    """
    names = PROPERTY_NAMES if properties is None else tuple(properties)
    _refuse_unknown("recipe", (recipe,), PRESETS)
    _refuse_unknown("property", names, PROPERTY_NAMES)
    found = provided(kernel, recipe, ModelKind(kind), form, sources, on_pool)
    chosen = sizes or (SMALL if device == "cpu" else DEVICE)
    if found.can.equal_widths:
        chosen = replace(chosen, value=chosen.key)
    subject = Subject(Provider("yours", (found,)), found, device, recipe, chosen, seed)
    return tuple(probe(name, subject) for name in names)


def assert_kernel(
    kernel: AnyKernel,
    recipe: str = "exact",
    properties: Iterable[str] | None = None,
    *,
    exact: Collection[str] = (),
    kind: str = "kda",
    form: Literal["chunk", "recurrent"] = "chunk",
    sources: Collection[str] = ("final",),
    on_pool: PoolForward | None = None,
    device: str = "cpu",
    sizes: Sizes | None = None,
    seed: int = 0,
) -> tuple[ProbeCell, ...]:
    """Fail if a property is broken, or isn't exact where it must be; otherwise return the cells.

    Args:
        exact: of the properties asked for, those whose bits must be the same, such as ``alone`` of a batch-invariant
            kernel. One that the kernel can't be asked fails, too: nothing was shown. The other arguments are those of
            :func:`probe_kernel`.

    Raises:
        AssertionError: for each such property what differs, how many elements, the worst with its index and both values,
            what is allowed, the seed, and how to repeat it.
    """
    _refuse_unknown("property", exact, PROPERTY_NAMES)
    cells = probe_kernel(
        kernel,
        recipe,
        properties,
        kind=kind,
        form=form,
        sources=sources,
        on_pool=on_pool,
        device=device,
        sizes=sizes,
        seed=seed,
    )
    bad = [cell for cell in cells if cell.verdict == "broken" or (cell.property in exact and cell.verdict != "exact")]
    if bad:
        name = str(getattr(kernel, "name", getattr(kernel, "__name__", "kernel")))
        raise AssertionError("\n".join(_failure(cell, name, recipe, seed) for cell in bad))
    return cells


def _failure(cell: ProbeCell, name: str, recipe: str, seed: int) -> str:
    must = "" if cell.verdict == "broken" else "; it must be exact"
    said = "can't be asked" if cell.verdict == "can't" else f"is {cell.verdict}"
    lines = [f"{name} under recipe {recipe}: {cell.property} {said}{must}", f"  {cell.sentence}"]
    if cell.example:
        lines.append(f"  smallest example: {cell.example}")
    if cell.number is not None and cell.predicted is not None:
        lines.append(f"  found {cell.number:.3g}, allowed {0.0 if must else cell.predicted:.3g}")
    return "\n".join([*lines, f"  seed {seed}; repeat: {_repeat(cell, name, recipe, seed)}"])


def _repeat(cell: ProbeCell, name: str, recipe: str, seed: int) -> str:
    """The pytest that is running, or the call."""
    call = f"assert_kernel({name}, recipe={recipe!r}, properties=[{cell.property!r}], seed={seed})"
    return running_test() or call


def running_test() -> str | None:
    """The command that runs the test that is running; None outside pytest."""
    running = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    return f"pytest {shlex.quote(running)}" if running else None


def provided(
    kernel: AnyKernel,
    recipe: str,
    kind: ModelKind,
    form: str,
    sources: Collection[str],
    on_pool: PoolForward | None,
) -> ProviderKernel:
    """Any of the three as a provider's kernel that claims ``recipe``."""
    if isinstance(kernel, ProviderKernel):
        return kernel
    if not isinstance(kernel, StateKernel):
        kernel = StateKernel(_name(kernel), form, frozenset(map(SnapshotSource, sources)), None, kernel)
    devices, pools = frozenset({"cpu", "cuda"}), (torch.float32, torch.bfloat16, torch.float16)
    return ProviderKernel(kind, kernel, Capabilities((recipe,), pool_dtypes=pools, devices=devices), on_pool)


def _name(function: Callable[..., object]) -> str:
    return f"yours/{getattr(function, '__name__', 'kernel')}"


def _refuse_unknown(what: str, given: Iterable[str], allowed: Collection[str]) -> None:
    for name in given:
        if name not in allowed:
            raise UsageError(f"unknown {what} {name!r}{did_you_mean(name, allowed)}; choose {choices(allowed)}")
