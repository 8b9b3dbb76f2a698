"""``bench kernels``: calls of state kernels, timed in turn, beside floors, snapshots and fla's kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch

from replaycheck.errors import InternalError
from replaycheck.say import Say
from replaycheck.schema.bench import Figure, Target

from . import floors
from .cases import CPU_CASES, GPU_CHUNK, GPU_DECODE, Case, draw, one_snapshot_each
from .ceilings import Ceilings, measure
from .clock import Call, in_turn
from .figures import figure, ratios
from .kernel_subjects import Subject, Subjects

ROUNDS = 2
"""Each subject is timed in so many turns, A B A B, with other memory each time."""

SNAPSHOT_COST = 2.0
"""Percent: what one snapshot a sequence may cost; it writes 2 MB beside the 335 MB of the smallest call."""
BANDWIDTH_SHARE = 80.0
"""Percent of the copy bandwidth that decode should reach: it does little but read and write states."""
REFERENCE = "fla/chunk_kda"


@dataclass
class _Samples:
    """Seconds by kernel, without a snapshot and with one, and host seconds."""

    plain: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tapped: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    host: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class _Found:
    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def bench_kernels(
    subjects: Subjects,
    device: str,
    runs: int,
    seed: int,
    cases: Sequence[Case] | None = None,
    say: Say = lambda _: None,
) -> tuple[tuple[Figure, ...], tuple[Target, ...], tuple[str, ...]]:
    """Figures, targets and notes.

    Args:
        runs: timed calls of each kernel and case, in ``ROUNDS`` turns.
        cases: None for the device's own.
    """
    found = _Found(notes=list(subjects.missing))
    ceilings = _ceilings(device, seed, found, say)
    chosen = cases if cases is not None else ((*GPU_CHUNK, *GPU_DECODE) if device == "cuda" else CPU_CASES)
    with torch.no_grad():
        for case in chosen:
            mine = subjects.of(case.form)
            if mine:
                say(f"{case.form}, {case.name}: {', '.join(each.name for each in mine)}")
                _report(case, mine, _time(case, mine, device, runs, seed, found.notes), ceilings, found)
    return tuple(found.figures), tuple(found.targets), tuple(found.notes)


def _ceilings(device: str, seed: int, found: _Found, say: Say) -> Ceilings | None:
    if device != "cuda":
        return None
    say("copy bandwidth and matmul rate")
    measured = measure(seed)
    found.figures += [
        figure("copy of 4 GiB", "bytes read and written", "TB/s", [x / 1e12 for x in measured.copy_samples]),
        figure("bf16 product of 8,192³", "rate", "TFLOP/s", [x / 1e12 for x in measured.matmul_samples]),
    ]
    return measured


def _time(case: Case, subjects: Sequence[Subject], device: str, runs: int, seed: int, notes: list[str]) -> _Samples:
    """Time all subjects on the same inputs. One that fails gets a note, and no figures."""
    samples, broken = _Samples(), set[str]()
    for turn in range(ROUNDS):
        inputs, initial = draw(case, device, seed + turn)
        for subject in (each for each in subjects if each.name not in broken):
            taps = one_snapshot_each(case) if subject.snapshots else []
            calls: list[Call] = []
            try:
                for rows in ([], taps) if taps else ([],):
                    last = bool(rows) or not taps
                    action = (
                        _timing(calls, max(1, runs // ROUNDS), device, subject.name, samples) if last else calls.append
                    )
                    subject.within(inputs, initial, rows, action)
            except InternalError:
                raise
            except Exception as error:  # kernels of other packages fail in any way, compilers too
                broken.add(subject.name)
                notes.append(f"{subject.name}, {case.name}: {(str(error).splitlines() or ['failed'])[0]}")
                samples.plain.pop(subject.name, None)
                samples.tapped.pop(subject.name, None)
        del inputs, initial
    return samples


def _timing(calls: list[Call], runs: int, device: str, name: str, samples: _Samples) -> Callable[[Call], None]:
    """Time the calls collected so far and the last one in turn, inside the adapter's context of the last."""

    def action(call: Call) -> None:
        times = in_turn([*calls, call], runs, device)
        samples.plain[name] += times[0].samples
        samples.host[name].append(times[0].host)
        if len(times) > 1:
            samples.tapped[name] += times[1].samples

    return action


def _report(
    case: Case, subjects: Sequence[Subject], samples: _Samples, ceilings: Ceilings | None, found: _Found
) -> None:
    for subject in subjects:
        plain = samples.plain.get(subject.name)
        if not plain:
            continue
        _one(case, subject.name, plain, samples, ceilings, found)
    if case.form == "chunk" and ceilings:
        _against_reference(case, samples, found)
    if ceilings is None:
        _ratios_on_cpu(case, subjects, samples, found)


def _one(
    case: Case, name: str, plain: Sequence[float], samples: _Samples, ceilings: Ceilings | None, found: _Found
) -> None:
    """Figures of one kernel and case; on the CPU times are of a shared machine, so only ratios are kept."""
    if ceilings:
        found.figures.append(figure(name, f"{case.name}: time", "ms", [x * 1e3 for x in plain]))
        found.figures.append(figure(name, f"{case.name}: host a call", "ms", [x * 1e3 for x in samples.host[name]]))
        _floors(case, name, plain, ceilings, found)
    tapped = samples.tapped.get(name)
    if tapped:
        cost = figure(
            name, f"{case.name}: one snapshot a sequence", "% more", [100 * (x - 1) for x in ratios(tapped, plain)]
        )
        found.figures.append(cost)
        if name.startswith("ours/") and ceilings:
            found.targets.append(
                _target(f"{name}, {case.name}, cost of one snapshot a sequence", "%", SNAPSHOT_COST, cost, least=False)
            )


def _floors(case: Case, name: str, plain: Sequence[float], ceilings: Ceilings, found: _Found) -> None:
    """How many times the floors it takes; for decode, what share of the copy bandwidth it reaches."""
    moved = floors.seconds(floors.call_bytes(case.shape()), ceilings.copy)
    if case.form == "chunk":
        products = floors.seconds(floors.chunk_flops(case.shape()), ceilings.matmul)
        for kind, floor in (("bytes", moved), ("FLOP", products)):
            found.figures.append(
                figure(
                    name, f"{case.name}: of the {kind} floor ({floor * 1e3:.3g} ms)", "×", [x / floor for x in plain]
                )
            )
        return
    share = figure(name, f"{case.name}: of the copy bandwidth", "%", [100 * moved / x for x in plain])
    found.figures.append(share)
    if name.startswith("ours/"):
        found.targets.append(_target(f"{name}, {case.name}, share of the copy bandwidth", "%", BANDWIDTH_SHARE, share))


def _against_reference(case: Case, samples: _Samples, found: _Found) -> None:
    """Ours as a multiple of fla's speed: at least as fast is wanted."""
    theirs = samples.plain.get(REFERENCE)
    for name in [name for name in samples.plain if name.startswith("ours/")]:
        if theirs:
            speed = figure(name, f"{case.name}: speed, of {REFERENCE}", "×", ratios(theirs, samples.plain[name]))
            found.figures.append(speed)
            found.targets.append(_target(f"{name}, {case.name}, speed of {REFERENCE}", "×", 1.0, speed))


def _ratios_on_cpu(case: Case, subjects: Sequence[Subject], samples: _Samples, found: _Found) -> None:
    """Against the slowest of the same form, which is plain torch."""
    timed = [each.name for each in subjects if samples.plain.get(each.name)]
    if len(timed) < 2:
        return
    slowest = max(timed, key=lambda name: median(samples.plain[name]))
    for name in timed:
        if name != slowest:
            faster = ratios(samples.plain[slowest], samples.plain[name])
            found.figures.append(figure(name, f"{case.name}: speed, of {slowest}", "×", faster))


def _target(name: str, unit: str, wanted: float, found: Figure, least: bool = True) -> Target:
    return Target(name=name, unit=unit, wanted=wanted, at_least=least, found=found.median)
