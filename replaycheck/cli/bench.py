"""``replaycheck bench``: how fast kernels and whole runs are, beside what other people use. It doesn't judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaycheck.autotuning import BENCHED
from replaycheck.cli import options
from replaycheck.cli.lazy import VerbGroup

if TYPE_CHECKING:
    from replaycheck.schema.bench import Bench

__all__ = ["command"]

_COUNT = click.IntRange(min=1)

_autotune = options.autotune_option(BENCHED)


@click.group(
    cls=VerbGroup,
    epilog=options.example(
        "replaycheck bench run --repeats 1", "replaycheck bench kernels --device cuda --kernels ours,fla"
    ),
)
def command() -> None:
    """Measure speed: whole runs against transformers, kernels against floors and other packages."""


@command.command(
    epilog=options.example(
        "replaycheck bench run --sessions 2 --repeats 1",
        "replaycheck bench run --device cuda --sessions 32 --profile --out reports/bench-run",
    )
)
@options.one_kernels_option
@options.kernels_path_option
@_autotune
@options.device_option
@options.preset_option
@options.traces_option
@options.model_option
@click.option(
    "--sessions", type=_COUNT, metavar="N", help="Sessions of the cold and the warm arm. [default: 16; GPU 64]"
)
@click.option("--alone", type=_COUNT, default=2, show_default=True, metavar="N", help="Of these, run one at a time.")
@click.option("--turns", type=_COUNT, default=2, show_default=True, metavar="N", help="Answers a session.")
@click.option("--prompt", type=_COUNT, metavar="N", help="New tokens before each answer. [default: 128; GPU 1024]")
@click.option("--answer", type=_COUNT, default=32, show_default=True, metavar="N", help="Tokens of each answer.")
@click.option("--repeats", type=_COUNT, default=3, show_default=True, metavar="N", help="Counted runs, in turn.")
@click.option(
    "--dtype", type=click.Choice(["fp32", "bf16"]), help="Of activations, on both sides. [default: fp32; GPU bf16]"
)
@click.option("--threads", type=_COUNT, default=1, show_default=True, metavar="N", help="Of each side's process.")
@click.option(
    "--against", type=click.Choice(["transformers", "nothing"]), default="transformers", show_default=True,
    help="What the lab is compared with.",
)  # fmt: skip
@click.option("--sharing/--no-sharing", default=True, show_default=True, help="Count what arms of the preset share.")
@click.option("--profile", "profiled", is_flag=True, help="Also profile the replay stage of the preset.")
@click.option("--groups", type=_COUNT, metavar="N", help="With --profile: the preset's first N groups. [default: all]")
@options.out_option
@options.json_option
def run(
    kernels: str,
    kernels_path: Path | None,
    autotune: int,
    device: str,
    preset: str | None,
    traces: tuple[str, ...],
    model: Path | None,
    sessions: int | None,
    alone: int,
    turns: int,
    prompt: int | None,
    answer: int,
    repeats: int,
    dtype: str | None,
    threads: int,
    against: str,
    sharing: bool,
    profiled: bool,
    groups: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """One cold and one warm arm in the lab and in transformers: the same weights, tokens, cuts, dtype and threads.

    Also what arms share, and with --profile where the time of the replay stage goes.
    """
    from replaycheck.bench.command import RunOptions
    from replaycheck.bench.command import run as bench_run
    from replaycheck.bench.workload import Sizes
    from replaycheck.cli.progress import Progress
    from replaycheck.replay.settings import resolve
    from replaycheck.subjects.lab.kernels import KernelChoice

    gpu = device == "cuda"
    sizes = Sizes(sessions or (64 if gpu else 16), turns, prompt or (1024 if gpu else 128), answer)
    choice = KernelChoice(kernels, kernels_path, device, autotune)
    settings, _ = resolve(preset=preset, traces=traces, model=model, kernels=choice, admitted=False)
    asked = RunOptions(
        sizes,
        alone,
        repeats,
        dtype or ("bf16" if gpu else "fp32"),
        threads,
        against == "transformers",
        sharing,
        profiled,
        groups or 0,
    )
    _show(bench_run(settings, asked, out, Progress()), as_json)


@command.command(
    epilog=options.example(
        "replaycheck bench kernels",
        "replaycheck bench kernels --device cuda --kernels ours,fla --out reports/bench-kernels",
    )
)
@options.kernels_option
@options.kernels_path_option
@options.device_option
@_autotune
@click.option(
    "--runs", type=click.IntRange(min=2), default=20, show_default=True, metavar="N", help="Timed calls of each."
)
@options.seed_option
@options.out_option
@options.json_option
def kernels(
    specs: tuple[str, ...],
    kernels_path: Path | None,
    device: str,
    autotune: int,
    runs: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Chunk forward, snapshots and decode, beside the fewest bytes and FLOP that they can take. On the CPU: ratios.

    --kernels takes several names, joined by commas or repeated.
    """
    from replaycheck.bench.command import kernels as bench_kernels
    from replaycheck.cli.progress import Progress

    _show(bench_kernels(specs, kernels_path, device, runs, seed, autotune, out, Progress()), as_json)


@command.command(
    epilog=options.example(
        "replaycheck bench state",
        "replaycheck bench state --device cuda --kernels-path unpacked --out reports/bench-state",
    )
)
@click.option(
    "--kernels", "specs", multiple=True, metavar="NAME", help="Whose: ours, vllm, sglang; repeatable. [default: all]"
)
@options.kernels_path_option
@options.device_option
@click.option(
    "--requests",
    type=_COUNT,
    multiple=True,
    metavar="N",
    help="Requests a step; repeatable. [default: 2, 3; GPU 4, 16]",
)
@click.option(
    "--runs", type=click.IntRange(min=2), default=20, show_default=True, metavar="N", help="Timed calls of each."
)
@options.seed_option
@options.out_option
@options.json_option
def state(
    specs: tuple[str, ...],
    kernels_path: Path | None,
    device: str,
    requests: tuple[int, ...],
    runs: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """RecoverSSM's verify and commit, native verify and fused slot copies, beside engines' own and plain copies.

    On a GPU: one rank of Kimi-K3 (69 layers, 12 of 96 heads, windows of 8), in CUDA graphs. On the CPU: a small one, ratios.
    """
    from replaycheck.bench.state_command import state as bench_state
    from replaycheck.cli.progress import Progress

    _show(bench_state(specs, kernels_path, device, requests, runs, seed, out, Progress()), as_json)


@command.command(
    epilog=options.example(
        "replaycheck bench scale --subject null --observations 20000 --sessions 500 --no-context",
        "replaycheck bench scale --subject lab --subject null --observations 100000 --observations 1000000",
    )
)
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="NAME",
    help="lab, null or pkg.mod:factory; repeatable. [default: null]",
)
@click.option(
    "--observations", type=_COUNT, multiple=True, metavar="N", help="About so many; repeatable. [default: 100000]"
)
@click.option(
    "--sessions",
    type=_COUNT,
    multiple=True,
    metavar="N",
    help="Memory at so many tiny sessions of the null subject; repeatable.",
)
@click.option("--workers", type=_COUNT, default=1, show_default=True, metavar="N", help="Processes of each run.")
@click.option(
    "--context/--no-context", default=True, show_default=True, help="A token's cost in the lab up to 4k context."
)
@options.out_option
@options.json_option
def scale(
    subjects: tuple[str, ...],
    observations: tuple[int, ...],
    sessions: tuple[int, ...],
    workers: int,
    context: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Whole runs at growing sizes: observations a second, peak memory, share of the CPU time outside the subject."""
    from replaycheck.bench.scale_command import ScaleOptions
    from replaycheck.bench.scale_command import scale as bench_scale
    from replaycheck.cli.progress import Progress

    asked = ScaleOptions(subjects or ("null",), observations or (100_000,), sessions, workers, context)
    _show(bench_scale(asked, out, Progress()), as_json)


def _show(bench: Bench, as_json: bool) -> None:
    from replaycheck.bench.table import bench_text

    if as_json:
        options.emit_json(bench.model_dump(mode="json"))
    else:
        click.echo(bench_text(bench), nl=False)
