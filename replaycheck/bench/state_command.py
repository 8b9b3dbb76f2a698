"""``bench state`` from options to a record: which engines are compared, and what is written where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from replaycheck.errors import UsageError
from replaycheck.replay.settings import require_device
from replaycheck.say import Say
from replaycheck.schema.bench import Bench
from replaycheck_kernels.providers import MissingPackage
from replaycheck_kernels.providers.sglang_windows import SglangWindows
from replaycheck_kernels.providers.vllm_windows import VllmWindows

from .command import Place
from .kernel_subjects import OURS, split_specs
from .state import Engines, Found, Measurement, bench_state, geometry_of

REQUESTS = {"cuda": (4, 16), "cpu": (2, 3)}
_ENGINES = (OURS, "vllm", "sglang")


def state(
    specs: tuple[str, ...],
    path: Path | None,
    device: str,
    requests: Sequence[int],
    runs: int,
    seed: int,
    out: Path | None,
    say: Say,
) -> Bench:
    """Time state operations.

    Args:
        specs: whose; () for all. requests: () for the device's own numbers.

    Raises:
        UsageError: a name without state operations; a folder that isn't empty. EngineEnvironmentError: no GPU.
    """
    names, rows = split_specs(specs) if specs else _ENGINES, tuple(requests) or REQUESTS[device]
    _known(names)
    require_device(device)
    found = Found()
    engines = _engines(names, device, path, found)
    given = {
        "geometry": str(geometry_of(device)),
        "requests": ", ".join(map(str, rows)),
        "runs": str(runs),
        "seed": str(seed),
        "calls": "CUDA graphs" if device == "cuda" else "torch, one thread",
    }
    place = Place.make(device, given, out)
    there = {"vllm": engines.vllm, "sglang": engines.sglang}
    bench_state(rows, engines, Measurement(device, runs, seed, say, found))
    return place.keep(
        Bench(
            kind="state",
            device=device,
            device_name=place.device_name,
            versions=dict(place.environment.versions) | {name: each.version for name, each in there.items() if each},
            settings=given,
            figures=tuple(found.figures),
            targets=tuple(found.targets),
            notes=tuple(found.notes),
        )
    )


def _known(names: Sequence[str]) -> None:
    for name in names:
        if name not in _ENGINES:
            raise UsageError(
                f"--kernels {name}: bench state knows the state operations of {', '.join(_ENGINES)} only; "
                "its state kernels are timed by bench kernels"
            )


def _engines(names: Sequence[str], device: str, path: Path | None, found: Found) -> Engines:
    """Those that were asked for and are there; a note for the others."""

    def load(name: str, build: Callable[[Path | None], Any]) -> Any:
        if name not in names:
            return None
        if device == "cpu":
            found.notes.append(f"{name}: its kernels need a GPU; only ours were run")
            return None
        try:
            return build(path)
        except MissingPackage as error:
            found.notes.append(f"{error}; not timed")
            return None

    return Engines(load("vllm", VllmWindows), load("sglang", SglangWindows))
