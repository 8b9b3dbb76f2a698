"""``replaycheck schema``: the JSON Schemas of the files that replaycheck reads and writes."""

from __future__ import annotations

import click

from replaycheck.cli.options import emit_json, example
from replaycheck.errors import UsageError, choices
from replaycheck.names import did_you_mean
from replaycheck.schema.architectures import ArchitectureTable
from replaycheck.schema.base import Record
from replaycheck.schema.bisect import Bisected
from replaycheck.schema.comparison import Comparison
from replaycheck.schema.floor import FloorFile
from replaycheck.schema.gate import Admission, GateFile
from replaycheck.schema.golden import Verified
from replaycheck.schema.probe_table import ProbeTable
from replaycheck.schema.result import Result
from replaycheck.schema.selftest import Selftest
from replaycheck.schema.server_options import ServerOptionsTable
from replaycheck.schema.shard import ShardRecord
from replaycheck.schema.state_table import StateTable
from replaycheck.schema.suite import Suite
from replaycheck.schema.sweep import Sweep
from replaycheck.schema.trace import Group

__all__ = ["SCHEMAS", "command"]

#: By the name that the command takes. A trace file has one group a line; a suite and a gate file are TOML.
SCHEMAS: dict[str, type[Record]] = {
    "trace": Group,
    "suite": Suite,
    "gate": GateFile,
    "result": Result,
    "admission": Admission,
    "floor": FloorFile,
    "probe": ProbeTable,
    "state": StateTable,
    "architectures": ArchitectureTable,
    "sweep": Sweep,
    "server-options": ServerOptionsTable,
    "selftest": Selftest,
    "shard": ShardRecord,
    "bisect": Bisected,
    "comparison": Comparison,
    "verified": Verified,
}


@click.command("schema", epilog=example("replaycheck schema trace", "replaycheck schema"))
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema NAME, one of the files that replaycheck reads and writes; all without NAME."""
    if name is None:
        emit_json({each: _schema(each) for each in SCHEMAS})
        return
    if name not in SCHEMAS:
        raise UsageError(
            f"schema {name!r} is unknown{did_you_mean(name, SCHEMAS)}; allowed are {choices(SCHEMAS)}; "
            "name one, or none for all"
        )
    emit_json(_schema(name))


def _schema(name: str) -> dict[str, object]:
    return SCHEMAS[name].model_json_schema(by_alias=True)
