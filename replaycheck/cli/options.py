"""Options that mean the same in every verb, each declared once.

A verb takes those it needs as decorators and gets the parameter named in the comment. Files that must be there are
checked by their readers, whose errors say more than click's.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from replaycheck.subjects.protocol import SubjectOptions

__all__ = [
    "FiniteRange",
    "autotune_option",
    "device_option",
    "emit_json",
    "engine_model_option",
    "example",
    "exit_zero_option",
    "fault_option",
    "gates_option",
    "github_option",
    "inconclusive_option",
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
    "subject_option",
    "subject_options",
    "subject_settings_option",
    "traces_option",
    "url_option",
    "workers_option",
]

Command = Callable[..., Any]
_PATH = click.Path(path_type=Path)


class FiniteRange(click.FloatRange):
    """A number within bounds; click alone lets NaN through, which is below no bound and above none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} isn't a finite number.", param, ctx)
        return number


# out: Path | None
out_option = click.option(
    "--out", type=_PATH, metavar="DIR", help="Write the run here; a folder that isn't empty is refused."
)
# as_json: bool
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
)
# github: bool | None
github_option = click.option(
    "--github/--no-github",
    default=None,
    help="Annotations, and a summary on the step's page. [default: on inside GitHub Actions]",
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
preset_option = click.option(
    "--preset", metavar="NAME", help="A suite that ships: quick, ci, full, kernel and others. [default: quick]"
)
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
def autotune_option(default: int) -> Callable[[Command], Command]:
    """--autotune with one of the defaults of :mod:`replaycheck.autotuning`."""
    return click.option(
        "--autotune",
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        metavar="N",
        help="On a GPU: let Triton time at most N configurations of a kernel; 0: all, as engines do, which takes minutes. "
        "The choice changes bits.",
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
# subject: str
subject_option = click.option(
    "--subject",
    default="lab",
    show_default=True,
    metavar="NAME",
    help="What is under test: lab, transformers, llamacpp, vllm, vllm-offline, sglang, openai, openai-text, null or "
    "pkg.mod:factory.",
)
# url: str | None
url_option = click.option("--url", metavar="URL", help="Where the server is, such as http://127.0.0.1:8000.")
# engine_model: str | None
engine_model_option = click.option(
    "--engine-model", metavar="NAME", help="The name by which the server knows its model. [default: its only one]"
)
# subject_settings: tuple[str, ...]
subject_settings_option = click.option(
    "--subject-option",
    "subject_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="What else a subject takes, such as block=128; repeatable (docs/servers.md lists them).",
)


def subject_options(
    url: str | None, model: Path | None, engine_model: str | None, device: str, settings: tuple[str, ...]
) -> SubjectOptions:
    """The four options above as one. Raises :class:`UsageError` for a setting that isn't NAME=VALUE."""
    from replaycheck.errors import UsageError
    from replaycheck.subjects.protocol import SubjectOptions

    pairs = []
    for each in settings:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise UsageError(f"--subject-option {each!r}: give NAME=VALUE")
        pairs.append((name, value))
    return SubjectOptions(url, model, engine_model, device, tuple(pairs))


# exit_zero: bool
exit_zero_option = click.option(
    "--exit-zero", is_flag=True, help="Exit with 0 whatever the verdict is; errors keep their codes."
)
# inconclusive: "fail" | "pass" | "code"
inconclusive_option = click.option(
    "--inconclusive",
    type=click.Choice(["fail", "pass", "code"]),
    default="code",
    show_default=True,
    help="Too little evidence: exit with 1, with 0, or with its own code 6.",
)


def example(*lines: str) -> str:
    """The epilog of a verb's help: command lines that work as they stand."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def emit_json(value: object) -> None:
    """Print ``value`` as the one JSON object on stdout: keys sorted, no NaN or Infinity."""
    import json

    click.echo(json.dumps(value, sort_keys=True, allow_nan=False, indent=2, ensure_ascii=True))
