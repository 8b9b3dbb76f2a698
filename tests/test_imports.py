"""What must stay quick and light: --help, and importing the command line."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What is promised (docs/architecture.md). User plus system time of the child: a busy machine makes the wall clock useless.
HELP_CPU_SECONDS = 0.3
HEAVY = {"torch", "pandas", "pyarrow", "pydantic", "matplotlib", "numpy", "scipy", "numba", "rich", "jinja2"}


def _python(*args: str) -> str:
    paths = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'kernels')!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", paths + args[0], *args[1:]], capture_output=True, text=True, check=True
    )
    return done.stdout


def _child_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _help_seconds() -> float:
    before = _child_seconds()
    assert "Usage: replaycheck" in _python("from replaycheck.cli.main import main; main()", "--help")
    return _child_seconds() - before


def test_help_answers_within_its_time() -> None:
    assert min(_help_seconds() for _ in range(3)) < HELP_CPU_SECONDS


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    loaded = json.loads(_python("import json, replaycheck.cli.main; print(json.dumps(list(sys.modules)))"))
    assert "replaycheck.cli.main" in loaded
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)


def test_help_loads_nothing_heavy() -> None:
    code = "import json, replaycheck.cli.main as m; m.invoke(['--help']); print(json.dumps(list(sys.modules)))"
    loaded = json.loads(_python(code).splitlines()[-1])
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)


def test_help_of_every_verb_loads_nothing_heavy_but_the_schemas() -> None:
    code = (
        "import click, json\n"
        "from replaycheck.cli.main import cli\n"
        "def walk(command, name, parent=None):\n"
        "    context = click.Context(command, info_name=name, parent=parent)\n"
        "    command.get_help(context)\n"
        "    for each in command.list_commands(context) if isinstance(command, click.Group) else ():\n"
        "        walk(command.get_command(context, each), each, context)\n"
        "walk(cli, 'replaycheck')\n"
        "print(json.dumps(list(sys.modules)))\n"
    )
    loaded = {name.partition(".")[0] for name in json.loads(_python(code))}
    assert loaded & HEAVY <= {"pydantic"}


def test_reading_traces_needs_no_torch() -> None:
    code = "import json, replaycheck.cli.trace, replaycheck.cli.schema; print(json.dumps(list(sys.modules)))"
    assert "torch" not in json.loads(_python(code))
