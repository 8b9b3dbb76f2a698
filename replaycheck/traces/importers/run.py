"""Import files: recognise, read, finish, and write one group after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces.write import write_groups

from .api import Context, Importer
from .finish import finish, identifier
from .registry import AUTO, OWN, detect, find
from .source import SourceFile

__all__ = ["Chosen", "Sizes", "choose", "import_groups", "written"]


@dataclass
class Sizes:
    """What was written."""

    groups: int = 0
    traces: int = 0
    turns: int = 0
    requests: int = 0
    #: of all trees, each turn and BOS once
    tokens: int = 0
    #: the smallest factor by which a group was shortened
    scale: float = 1.0

    def add(self, group: Group) -> None:
        self.groups += 1
        self.traces += len(group.traces)
        self.turns += sum(len(trace.turns) for trace in group.traces)
        self.requests += len(group.requests)
        self.tokens += sum(1 + sum(len(turn.tokens) for turn in trace.turns) for trace in group.traces)
        self.scale = min(self.scale, group.source.scale if group.source else 1.0)

    def record(self) -> dict[str, object]:
        return asdict(self)

    def text(self) -> str:
        shortened = f", scaled to {self.scale:.4g}" if self.scale < 1 else ""
        counts = f"{self.groups} groups, {self.traces} traces, {self.turns} turns, {self.requests} requests"
        return f"{counts}, {self.tokens} tokens{shortened}"


@dataclass(frozen=True)
class Chosen:
    """A file, the importer that reads it, and why that one."""

    source: SourceFile
    importer: Importer
    why: str


def choose(name: str, paths: Sequence[Path]) -> tuple[Chosen, ...]:
    """An importer for each file. Raises :class:`UsageError` for an unknown format or file."""
    sources = [SourceFile(path) for path in paths]
    if name != AUTO:
        importer = find(name)
        return tuple(Chosen(source, importer, "named") for source in sources)
    return tuple(Chosen(source, *detect(source)) for source in sources)


def written(chosen: Sequence[Chosen], context: Context, out: Path) -> Sizes:
    """Import the files and write the groups to ``out``, one at a time."""
    sizes = Sizes()

    def counted() -> Iterator[Group]:
        for group in import_groups(chosen, context):
            sizes.add(group)
            yield group

    # Names that we number are distinct; those of our own files come from outside.
    write_groups(out, counted(), distinct=all(each.importer.name != OWN for each in chosen))
    return sizes


def import_groups(chosen: Sequence[Chosen], context: Context) -> Iterator[Group]:
    """The groups of the files, in order; files in a row that are of one format are read together."""
    stems = _stems(chosen)
    most = context.options.max_traces
    written = 0
    for importer, part in groupby(chosen, key=lambda each: each.importer):
        numbers: Counter[str] = Counter()
        for draft in importer.read([each.source for each in part], context):
            if isinstance(draft, Group):
                group: Group | None = draft
            else:
                stem = stems[draft.source.path]
                numbers[stem] += 1
                group = finish(draft, f"{stem}-{numbers[stem]:04d}", importer.name, context)
            if group is None:
                continue
            if most is not None and written == most:
                context.log.drop("everything after --max-traces groups; not counted further")
                return
            written += 1
            yield group
    if not written:
        reasons = "; ".join(context.log.lines())
        raise UsageError(f"{', '.join(str(each.source.path) for each in chosen)}: nothing to import: {reasons}")


def _stems(chosen: Sequence[Chosen]) -> dict[Path, str]:
    """A name for each file, told apart by number where two have the same."""
    stems: dict[Path, str] = {}
    taken: Counter[str] = Counter()
    for each in chosen:
        path = each.source.path
        if path in stems:
            raise UsageError(f"{str(path)!r} is given twice; name each file once")
        stem = identifier(path.name.split(".")[0], "import")[:40]
        taken[stem] += 1
        stems[path] = stem if taken[stem] == 1 else f"{stem}-f{taken[stem]}"
    return stems
