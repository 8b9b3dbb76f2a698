"""``bench run``: the lab and transformers on the same sessions, in turn; what arms share; where the replay's time goes.

Each side has a process of its own and the same threads. A repetition runs the lab on all sessions in lockstep, transformers
on sessions one by one, as its users run it, then each the other way, so a reader sees what batching gives either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from replaycheck.say import Say
from replaycheck.schema.bench import Figure, Target

from .figures import figure, ratios
from .processes import Worker, worker
from .profile import Profile
from .sharing import Shared
from .sides import DECODE, PREFILL, Job, Measured, Setup
from .workload import ARMS, Sizes

LAB, OTHER = "lab", "transformers"
POSITIONS = "positions"

CPU_TARGETS = {PREFILL: 3.0, DECODE: 20.0}
GPU_TARGETS = {POSITIONS: 5.0}
"""How many times faster the lab should be, all sessions in lockstep, than transformers one session at a time."""

KERNEL_SHARE = 70.0
"""Percent of the replay stage's wall time that a GPU should spend in kernels."""


@dataclass(frozen=True)
class Way:
    """A side, and whether it takes all sessions at once."""

    side: str
    together: bool

    @property
    def name(self) -> str:
        return f"{self.side}, {'all sessions at once' if self.together else 'one session at a time'}"


WAYS = (Way(LAB, True), Way(OTHER, False), Way(LAB, False), Way(OTHER, True))


@dataclass
class Compared:
    """What the comparison found. facts: kernels and versions that really ran."""

    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


def compare_sides(
    setup: Setup, sizes: Sizes, alone: int, repeats: int, against: bool, say: Say = lambda _: None
) -> Compared:
    """Run both sides in turn.

    Args:
        setup: the lab's; transformers gets the same.
        alone: sessions of the runs that take one at a time; rates don't depend on their number.
        against: False leaves transformers out.

    Raises:
        EngineEnvironmentError: transformers isn't there, or a side died.
    """
    found = Compared()
    ways = [way for way in WAYS if against or way.side == LAB]
    with ExitStack() as stack:
        workers = {
            side: stack.enter_context(worker(replace(setup, side=side)))
            for side in dict.fromkeys(way.side for way in ways)
        }
        for each in workers.values():
            found.facts |= each.facts
        runs = _measure(workers, ways, setup.device, sizes, alone, repeats, say)
        for name, each in workers.items():
            found.figures.append(figure(name, "peak memory", "MiB", [each.peak / 2**20]))
    _rates(runs, sizes, alone, found)
    if against:
        _ratios(runs, sizes, alone, setup.device, found)
    return found


Runs = dict[tuple[Way, bool], list[Measured]]
"""By way, and whether passes were timed apart."""


def _measure(
    workers: dict[str, Worker], ways: list[Way], device: str, sizes: Sizes, alone: int, repeats: int, say: Say
) -> Runs:
    """Warm up, then A B A B. Timing passes apart holds a GPU up, so there the whole is timed in a run of its own."""
    few = replace(sizes, sessions=min(alone, sizes.sessions))
    jobs = [
        (way, Job(sizes if way.together else few, way.together, apart))
        for way in ways
        for apart in ((True,) if device == "cpu" else (True, False))
    ]
    for way, job in jobs:
        if job.apart:
            say(f"warm-up: {way.name}")
            # A GPU compiles and tunes by shape, so it gets the same sizes; on the CPU one session loads everything.
            workers[way.side].run(job if device == "cuda" else replace(job, sizes=replace(sizes, sessions=1)))
    runs: Runs = defaultdict(list)
    for turn in range(repeats):
        for way, job in jobs:
            measured = workers[way.side].run(job)
            say(f"run {turn + 1} of {repeats}: {way.name}, {measured.seconds:.3g} s")
            runs[way, job.apart].append(measured)
    return runs


def _rate(measured: Iterable[Measured], quantity: str, sizes: Sizes) -> list[float]:
    """Tokens, or scored positions, a second in each run."""
    if quantity == POSITIONS:
        return [len(ARMS) * sizes.positions / each.seconds for each in measured]
    return [each.tokens[quantity] / each.kind_seconds[quantity] for each in measured]


def _of(runs: Runs, way: Way, quantity: str, sizes: Sizes, alone: int) -> list[float]:
    mine = sizes if way.together else replace(sizes, sessions=min(alone, sizes.sessions))
    apart = quantity != POSITIONS or (way, False) not in runs
    return _rate(runs[way, apart], quantity, mine)


def _rates(runs: Runs, sizes: Sizes, alone: int, found: Compared) -> None:
    for way in dict.fromkeys(way for way, _ in runs):
        for quantity in (PREFILL, DECODE, POSITIONS):
            unit = "position/s" if quantity == POSITIONS else "token/s"
            found.figures.append(figure(way.name, quantity, unit, _of(runs, way, quantity, sizes, alone)))


def _ratios(runs: Runs, sizes: Sizes, alone: int, device: str, found: Compared) -> None:
    """The lab over transformers: the lab in lockstep over sessions one by one, which is judged by the targets; and alike."""
    wanted = CPU_TARGETS if device == "cpu" else GPU_TARGETS
    pairs = {
        "lab all at once, transformers one by one": (WAYS[0], WAYS[1]),
        "both all at once": (WAYS[0], WAYS[3]),
        "both one session at a time": (WAYS[2], WAYS[1]),
    }
    for name, (ours, theirs) in pairs.items():
        for quantity in (PREFILL, DECODE, POSITIONS):
            samples = (_of(runs, way, quantity, sizes, alone) for way in (ours, theirs))
            ratio = figure(f"lab / transformers: {name}", quantity, "×", ratios(*samples))
            found.figures.append(ratio)
            if name == next(iter(pairs)) and quantity in wanted:
                found.targets.append(_target(f"{quantity}, {name}", "×", wanted[quantity], ratio.median))
    a, b = (runs[way, True][0].logprobs for way in (WAYS[0], WAYS[3]))
    differences = sorted(abs(x - y) for x, y in zip(a, b, strict=True))
    found.figures.append(figure("lab − transformers", "|Δ log p| of the scored tokens", "nat", differences))


def shared_figures(preset: str, shared: Shared) -> list[Figure]:
    """What arms share, of a preset."""
    name = f"arms of {preset}"
    return [
        figure(name, "tokens asked for", "tokens", [shared.asked]),
        figure(name, "tokens computed, each distinct one once", "tokens", [shared.computed]),
        figure(name, "saved by sharing", "%", [100 * shared.saved]),
    ]


def profile_figures(preset: str, found: Profile) -> tuple[list[Figure], list[Target]]:
    """The replay stage of a preset."""
    name = f"replay stage of {preset}"
    figures = [figure(name, "wall time", "s", [found.wall])]
    targets = []
    if (
        found.kernels is not None
        and found.copies is not None
        and found.profiled is not None
        and found.share is not None
    ):
        share = 100 * found.share
        figures += [
            figure(name, "wall time under torch's profiler", "s", [found.profiled]),
            figure(name, "in kernels", "s", [found.kernels]),
            figure(name, "in copies and fills", "s", [found.copies]),
            figure(name, "kernels launched", "launches", [found.launches]),
            figure(name, "share of the wall time in kernels", "%", [share]),
        ]
        targets.append(_target(f"{name}, share of the wall time in kernels", "%", KERNEL_SHARE, share))
    figures += [
        figure(f"host, {cost.function}", f"own time, of {found.host_wall:.3g} s under cProfile", "s", [cost.seconds])
        for cost in found.host
    ]
    return figures, targets


def _target(name: str, unit: str, wanted: float, found: float) -> Target:
    return Target(name=name, unit=unit, wanted=wanted, at_least=True, found=found)
