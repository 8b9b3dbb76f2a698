"""``bench state``: verify, commit and slot copies, timed in turn beside vLLM's, SGLang's and plain copies of as many bytes.

On a GPU calls are CUDA graphs, as engines run them: what is timed is the device's work for all layers. On the CPU they are
torch's, at a small geometry, and only ratios are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from replaycheck.errors import InternalError
from replaycheck.say import Say
from replaycheck.schema.bench import Figure, Target
from replaycheck_kernels.providers.sglang_windows import SglangWindows
from replaycheck_kernels.providers.vllm_windows import VllmWindows

from . import state_calls as ours
from .ceilings import copy_rates
from .clock import Call, Times, in_turn
from .figures import figure, ratios
from .state_graph import PLANS, captured, replays
from .state_sglang import Copied
from .state_vllm import NATIVE, Theirs, agreement_of_commit, agreement_of_verify
from .state_world import KIMI_K3_TP8, SMALL, Geometry, World, draw

VERIFY_COST = 13.66
"""Percent: what RecoverSSM's verify may cost more than the native one; the figure that its authors give."""
COMMIT_COST = 1.0
"""Of vLLM's Triton commit's time."""
BANDWIDTH_SHARE = 85.0
"""Percent of the copy bandwidth that copies of many small slots should reach."""


@dataclass(frozen=True)
class CopyCase:
    """``pairs`` slots of a geometry; ``target``: many small ones, which the target is about."""

    name: str
    geometry: Geometry
    pairs: int
    target: bool = False


GPU_COPIES = (
    CopyCase("32 slots of 54 MB", KIMI_K3_TP8, 32),
    CopyCase("256 slots of 4.6 MB", Geometry(69, 1, 128, 128, 8, 3), 256, target=True),
    CopyCase("1,024 slots of 0.3 MB", Geometry(69, 1, 128, 4, 8, 3), 1024, target=True),
)
CPU_COPIES = (CopyCase("8 slots", SMALL, 8),)


@dataclass(frozen=True)
class Engines:
    """Of other packages; None where one isn't there."""

    vllm: VllmWindows | None = None
    sglang: SglangWindows | None = None


@dataclass
class Found:
    """What one part of the bench adds to the whole."""

    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Measurement:
    """One run of the verb: its device, number of timed calls and seed, and what it has found."""

    device: str
    runs: int
    seed: int
    say: Say
    found: Found

    def time(self, calls: Mapping[str, Call]) -> dict[str, Times]:
        """Time what can run, in turn. A call that fails, or that no graph takes, gets a note."""
        ready = {name: prepared for name, call in calls.items() if (prepared := self._ready(name, call))}
        return dict(zip(ready, in_turn(list(ready.values()), self.runs, self.device), strict=True))

    def _ready(self, name: str, call: Call) -> Call | None:
        try:
            call()
        except InternalError:
            raise
        except Exception as error:  # kernels of other packages fail in any way, compilers too
            self.found.notes.append(f"{name}: {(str(error).splitlines() or ['failed'])[0]}")
            return None
        if self.device != "cuda":
            return call
        try:
            return captured(call)
        except RuntimeError as error:
            self.found.notes.append(f"{name} can't be captured, timed eagerly: {str(error).splitlines()[0]}")
            return call

    def report(self, name: str, what: str, times: Times) -> None:
        """Microseconds; not of a CPU, which is shared."""
        if self.device == "cuda":
            self.found.figures.append(figure(name, f"{what}: time", "µs", [x * 1e6 for x in times.samples]))

    def ratio(self, name: str, quantity: str, unit: str, values: Sequence[float]) -> Figure:
        self.found.figures.append(figure(name, quantity, unit, values))
        return self.found.figures[-1]

    def target(self, name: str, unit: str, wanted: float, found: Figure, least: bool) -> None:
        """Targets are for a GPU."""
        if self.device == "cuda":
            self.found.targets.append(Target(name=name, unit=unit, wanted=wanted, at_least=least, found=found.median))


def bench_state(
    requests: Sequence[int],
    engines: Engines,
    bench: Measurement,
    geometry: Geometry | None = None,
    copies: Sequence[CopyCase] | None = None,
) -> None:
    """Measure into ``bench.found``.

    Args:
        requests: R of each round. geometry, copies: None for the device's own.
    """
    gpu = bench.device == "cuda"
    chosen = geometry or geometry_of(bench.device)
    with torch.no_grad(), _one_thread():
        for index, rows in enumerate(requests):
            world = draw(chosen, rows, bench.device, bench.seed + index)
            bench.say(f"verify and commit, {rows} requests, {chosen}")
            _verify(world, engines, bench)
            _float64(world, bench)
            if index == 0:
                _replays(world, bench)
            for aligned in (False, True):
                _commit(world, aligned, engines.vllm, bench)
            del world
        _copies(copies if copies is not None else GPU_COPIES if gpu else CPU_COPIES, bench)


@contextmanager
def _one_thread() -> Iterator[None]:
    """On a busy machine the second thread of a copy of some kilobytes is waited for longer than the copy takes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def geometry_of(device: str) -> Geometry:
    """A deployed model's share of one GPU; on the CPU a small one."""
    return KIMI_K3_TP8 if device == "cuda" else SMALL


def _verify(world: World, engines: Engines, bench: Measurement) -> None:
    what = f"{world.rows} requests"
    native_verify, wide = ours.native_verify(world)
    calls = {ours.VERIFY: ours.recover_verify(world), ours.NATIVE: native_verify}
    theirs = Theirs.verify(engines.vllm, world) if engines.vllm else None
    copied = Copied.verify(engines.sglang, world) if engines.sglang else None
    times = bench.time(calls | (theirs.calls if theirs else {}) | (copied.calls if copied else {}))
    for name, each in times.items():
        bench.report(name, what, each)
    for native in (ours.NATIVE, NATIVE):
        for name in times:
            if native in times and name != native and ("recover" in name or native == NATIVE):
                more = [100 * (x - 1) for x in ratios(times[name].samples, times[native].samples)]
                cost = bench.ratio(name, f"{what}: more than {native}", "%", more)
                if (name, native) == (ours.VERIFY, NATIVE):
                    bench.target(f"{name}, {what}, more than {native}", "%", VERIFY_COST, cost, least=False)
    if theirs:
        bench.found.figures += agreement_of_verify(world, theirs, what)
    _copy_back(world, wide, copied, bench)


def _copy_back(world: World, wide: Tensor, copied: Copied | None, bench: Measurement) -> None:
    """What the native verify's way takes instead of a commit: the accepted state of each request is copied."""
    what = f"{world.rows} requests"
    call, moved = ours.copy_back(world, wide)
    calls = {ours.BACK: call, "plain copy": ours.plain_copy(moved, world.pool.device.type)}
    if copied:
        bench.found.figures += copied.agreement(wide, what)
        calls |= copied.back(world)
    times = bench.time(calls)
    plain = times.pop("plain copy")
    for name, each in times.items():
        bench.report(name, what, each)
        bench.ratio(name, f"{what}: time, of a plain copy of its bytes", "×", ratios(each.samples, plain.samples))


def _float64(world: World, bench: Measurement) -> None:
    name, quantity = ours.COMMIT, f"{world.rows} requests: difference from float64, of its bound"
    found = bench.ratio(name, quantity, "×", [ours.beyond_float64(world)])
    bench.target(f"{name}, {quantity}", "×", 1.0, found, least=False)


def _replays(world: World, bench: Measurement) -> None:
    """No host synchronisation: one captured step serves plans with other contents."""
    if bench.device != "cuda":
        bench.found.notes.append("a CPU has no graphs: that no call waits for the host isn't shown")
        return
    done = replays(world)
    name = "ours/step in a graph"
    equal = bench.ratio(name, "replays with the bits of eager calls", f"of {PLANS} plans", [done.equal])
    bench.ratio(name, "plans that changed a state", f"of {PLANS} plans", [done.changed])
    bench.target(f"{name}, replays with the bits of eager calls", f"of {PLANS}", PLANS, equal, least=True)


def _commit(world: World, aligned: bool, vllm: VllmWindows | None, bench: Measurement) -> None:
    what = f"{world.rows} requests{', aligned' if aligned else ''}"
    align = world.align() if aligned else None
    moved = ours.commit_bytes(world, align)
    calls = {ours.COMMIT: ours.commit(world, align), "plain copy": ours.plain_copy(moved, world.pool.device.type)}
    theirs = Theirs.commit(vllm, world, align) if vllm else None
    if theirs:
        bench.found.figures += agreement_of_commit(world, align, theirs, what)
    times = bench.time(calls | (theirs.calls if theirs else {}))
    plain = times.pop("plain copy")
    for name, each in times.items():
        bench.report(name, what, each)
        bench.ratio(name, f"{what}: time, of a plain copy of its bytes", "×", ratios(each.samples, plain.samples))
        if name != ours.COMMIT and ours.COMMIT in times:
            slower = bench.ratio(
                ours.COMMIT, f"{what}: time, of {name}", "×", ratios(times[ours.COMMIT].samples, each.samples)
            )
            bench.target(f"{ours.COMMIT}, {what}, time of {name}", "×", COMMIT_COST, slower, least=False)


def _copies(cases: Sequence[CopyCase], bench: Measurement) -> None:
    rate = 0.0
    if bench.device == "cuda":
        bench.say("copy bandwidth")
        samples = copy_rates(torch.Generator(device="cuda").manual_seed(bench.seed))
        rate = bench.ratio("copy of 4 GiB", "bytes read and written", "TB/s", [x / 1e12 for x in samples]).median
    for case in cases:
        bench.say(f"copy, {case.name}")
        call, moved = ours.slot_copy(case.geometry, case.pairs, bench.device, bench.seed)
        times = bench.time({ours.COPY: call, "plain copy": ours.plain_copy(moved, bench.device)})
        mine, plain = times[ours.COPY], times["plain copy"]
        bench.report(ours.COPY, case.name, mine)
        bench.ratio(
            ours.COPY, f"{case.name}: speed, of one plain copy", "%",
            [100 * x for x in ratios(plain.samples, mine.samples)],
        )  # fmt: skip
        if rate:
            share = [100 * moved / x / (rate * 1e12) for x in mine.samples]
            found = bench.ratio(ours.COPY, f"{case.name}: of the copy bandwidth", "%", share)
            if case.target:
                name = f"{ours.COPY}, {case.name}, share of the copy bandwidth"
                bench.target(name, "%", BANDWIDTH_SHARE, found, least=True)
