"""``replaycheck capacity``: what recurrent states cost, and what a rollback method frees."""

from __future__ import annotations

from pathlib import Path

import click

from replaycheck.capacity.answer import answer
from replaycheck.capacity.geometry import Geometry, geometry_named, geometry_of
from replaycheck.capacity.sizes import Layout
from replaycheck.capacity.text import lines
from replaycheck.cli.options import emit_json, example, json_option, model_option
from replaycheck.errors import UsageError
from replaycheck.schema.arm import PoolDtype

__all__ = ["command"]

_COUNT = click.IntRange(min=1, max=1 << 20)
_DEFAULT = "kimi-k3"


@click.command(
    "capacity",
    epilog=example(
        "replaycheck capacity --geometry kimi-k3 --drafts 7 --sequences 4 --dp 16 --ep 16 --gain 10.97",
        "replaycheck capacity --layers 20 --heads 32 --pool bf16 --tp 2 --json",
    ),
)
@model_option
@click.option(
    "--geometry", metavar="NAME", help=f"A public geometry: kimi-k3 or kimi-linear-48b. [default: {_DEFAULT}]"
)
@click.option("--layers", type=_COUNT, metavar="N", help="Recurrent layers, instead of a model or a geometry.")
@click.option("--heads", type=_COUNT, metavar="N", help="Heads of each layer; with --layers.")
@click.option("--key", type=_COUNT, default=128, show_default=True, metavar="N", help="K of a head; with --layers.")
@click.option("--value", type=_COUNT, default=128, show_default=True, metavar="N", help="V of a head; with --layers.")
@click.option(
    "--pool", type=click.Choice([str(d) for d in PoolDtype]), default="fp32", show_default=True, help="Dtype of states."
)
@click.option(
    "--drafts", type=click.IntRange(0, 1024), default=7, show_default=True, metavar="N", help="Drafts of a window."
)
@click.option("--sequences", type=_COUNT, default=4, show_default=True, metavar="N", help="Sequences on each rank.")
@click.option("--tp", type=_COUNT, default=1, show_default=True, metavar="N", help="Ranks that heads are split over.")
@click.option("--dp", type=_COUNT, default=1, show_default=True, metavar="N", help="Data-parallel ranks.")
@click.option("--ep", type=_COUNT, default=1, show_default=True, metavar="N", help="Ranks of the experts.")
@click.option("--ring", type=_COUNT, metavar="N", help="Tokens in ReplaySSM's ring. [default: two windows]")
@click.option("--gain", type=float, metavar="PERCENT", help="Print what yields this gain in capacity, e.g. 10.97.")
@json_option
def command(
    model: Path | None,
    geometry: str | None,
    layers: int | None,
    heads: int | None,
    key: int,
    value: int,
    pool: str,
    drafts: int,
    sequences: int,
    tp: int,
    dp: int,
    ep: int,
    ring: int | None,
    gain: float | None,
    as_json: bool,
) -> None:
    """Compute state bytes a request, the waste of per-position states, and what RecoverSSM frees."""
    shape = _geometry(model, geometry, layers, heads, key, value)
    if gain is not None and not 0 < gain < 1000:
        raise UsageError(f"--gain {gain:g} must be a percentage above 0 and below 1000")
    if gain is not None and not drafts:
        raise UsageError("--gain needs drafts: without speculation there is nothing to free; give --drafts 1 or more")
    layout = Layout(PoolDtype(pool), drafts, tp, ring)
    found = answer(shape, layout, sequences, dp, ep, None if gain is None else gain / 100)
    if as_json:
        emit_json(found.record())
    else:
        click.echo("\n".join(lines(found)))


def _geometry(
    model: Path | None, name: str | None, layers: int | None, heads: int | None, key: int, value: int
) -> Geometry:
    """Exactly one of the three ways to say it; the default geometry where none is used."""
    if (layers is None) != (heads is None):
        raise UsageError("--layers and --heads belong together; give both, or --model DIR, or --geometry NAME")
    if sum(given is not None for given in (model, name, layers)) > 1:
        raise UsageError("give one of --model, --geometry, or --layers with --heads; they name different models")
    if model is not None:
        return geometry_of(model)
    if layers is not None and heads is not None:
        return Geometry("given", layers, heads, key, value, 4, 0, 0, "the command line; convolution of width 4")
    return geometry_named(name or _DEFAULT)
