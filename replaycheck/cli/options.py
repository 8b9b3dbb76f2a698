"""Options that mean the same in every verb, each declared once (DESIGN §7).

A verb takes those it needs as decorators and gets the parameter named in the comment. Files that must be there are
checked by their readers, whose errors say more than click's.
"""

from __future__ import annotations

from pathlib import Path

import click

__all__ = [
    "autotune_option",
    "device_option",
    "emit_json",
    "example",
    "fault_option",
    "gates_option",
    "json_option",
    "kernels_option",
    "kernels_path_option",
    "model_option",
    "one_kernels_option",
    "out_option",
    "preset_option",
    "recipe_option",
    "resume_option",
    "seed_option",
    "show_text_option",
    "traces_option",
    "workers_option",
]

_PATH = click.Path(path_type=Path)

# out: Path | None
out_option = click.option(
    "--out", type=_PATH, metavar="DIR", help="Write the run here; a folder that isn't empty is refused."
)
# as_json: bool
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
)
# show_text: bool
show_text_option = click.option("--show-text", is_flag=True, help="Show tokens of imported traces in the report.")
# seed: int
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of everything random."
)
# device: "cpu" | "cuda"
device_option = click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Where the model computes."
)
# preset: str | None
preset_option = click.option("--preset", metavar="NAME", help="A suite that ships: quick, ci or full. [default: quick]")
# traces: tuple[str, ...]
traces_option = click.option(
    "--traces", multiple=True, metavar="FILE", help="Traces instead of the suite's: a file or suite:NAME; repeatable."
)
# faults: tuple[str, ...]
fault_option = click.option(
    "--fault", "faults", multiple=True, metavar="NAME", help="Plant this fault: NAME or pkg.mod:name; repeatable."
)
# model: Path | None
model_option = click.option("--model", type=_PATH, metavar="DIR", help="A model's folder. [default: the shipped one]")
# gates: tuple[str, ...]
gates_option = click.option(
    "--gates", multiple=True, metavar="FILE", help="Gates instead of the suite's: a file or a shipped name; repeatable."
)
# specs: tuple[str, ...]
kernels_option = click.option(
    "--kernels",
    "specs",
    multiple=True,
    metavar="NAME",
    help="Whose kernels: ours, fla, sglang, vllm or pkg.mod:factory; repeatable. [default: ours]",
)
# kernels: str
one_kernels_option = click.option(
    "--kernels",
    default="ours",
    show_default=True,
    metavar="NAME",
    help="Whose kernels run the lab: ours, fla, sglang, vllm or pkg.mod:factory.",
)
# kernels_path: Path | None
kernels_path_option = click.option(
    "--kernels-path", type=_PATH, metavar="DIR", help="Folder with fla's, sglang's or vllm's package, unpacked."
)
# autotune: int
autotune_option = click.option(
    "--autotune",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Let Triton time at most N configurations of a provider's kernel; 0: all. The choice changes bits.",
)
# recipe: str | None
recipe_option = click.option(
    "--recipe",
    metavar="NAME",
    help="How kernels round, a named preset. [default: what the kernels claim, or the suite's]",
)
# workers: int | None
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Processes at work. [default: what the machine has]"
)
# resume: Path | None
resume_option = click.option(
    "--resume", type=_PATH, metavar="DIR", help="Go on with an interrupted run in this folder."
)


def example(*lines: str) -> str:
    """The epilog of a verb's help: command lines that work as they stand."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def emit_json(value: object) -> None:
    """Print ``value`` as the one JSON object on stdout: keys sorted, no NaN or Infinity."""
    import json

    click.echo(json.dumps(value, sort_keys=True, allow_nan=False, indent=2, ensure_ascii=True))
