"""``replaycheck sweep``: how often to checkpoint, and in which dtype. It doesn't judge."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.cli import groups, options
from replaycheck.cli.progress import Progress

__all__ = ["command"]


@click.command(
    epilog=options.example(
        "replaycheck sweep --checkpoint-interval 64,256,end --pool fp32,bf16 --out reports/sweep",
        "replaycheck sweep --checkpoint-interval 64 --answers decoded --activation inside,outside",
        "replaycheck sweep --dry-run",
    )
)
@click.option(
    "--checkpoint-interval",
    "intervals",
    default="64,128,256,end",
    show_default=True,
    metavar="N,…,end",
    help="Tokens between checkpoints; end: one checkpoint at the end of each prompt.",
)
@click.option(
    "--pool", "pools", default="fp32,bf16,fp16", show_default=True, metavar="DTYPE,…", help="Dtypes of states."
)
@click.option(
    "--activation",
    "activations",
    default="inside",
    show_default=True,
    metavar="inside,outside",
    help="Where prefill activates beta and the decay; decoding does it inside its kernel.",
)
@click.option(
    "--answers",
    type=click.Choice(["prefilled", "decoded"]),
    default="prefilled",
    show_default=True,
    help="How earlier answers enter a later turn; decoded also stores each turn's end.",
)
@groups.replayed_options
@options.out_option
@options.json_option
@click.option("--dry-run", is_flag=True, help="Print who computes what in each arm, and run nothing.")
def command(
    intervals: str,
    pools: str,
    activations: str,
    answers: str,
    replayed: groups.Replayed,
    out: Path | None,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Tokens computed again, hits, bytes, and what changes, for each checkpoint interval and pool dtype.

    A table; with --out also sweep.json, and sweep.html with a plot to choose from.
    """
    from replaycheck.sweep.choice import choice
    from replaycheck.sweep.run import for_sweep, sweep

    asked = choice(intervals, pools, activations, answers)
    settings, warnings = replayed.settings()
    settings = for_sweep(settings, asked)
    say = Progress()
    for warning in warnings:
        say(f"warning: {warning}")
    if dry_run:
        from replaycheck.replay.dry import dry_run as show
        from replaycheck.replay.stage import How

        click.echo(show(settings, How(), calibrate=False))
        return
    from replaycheck.report.sweep_text import sweep_text

    found = sweep(settings, asked, out, replayed.workers, say)
    if out is not None:
        from replaycheck.report.sweep_html import write_sweep_page

        say(f"wrote {write_sweep_page(out)}")
    if as_json:
        options.emit_json(found.model_dump(mode="json"))
    else:
        click.echo(sweep_text(found), nl=False)
