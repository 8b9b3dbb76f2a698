"""The groups of a run, read from their files one at a time: where each begins, and how much work it is.

Every line is read and checked once when a run is resolved; after that a group is found by its byte offset. An index takes
44 bytes a group, whatever its traces hold.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import overload

import numpy as np

from replaycheck.errors import UsageError
from replaycheck.schema.trace import Group
from replaycheck.traces.read import located, scan
from replaycheck.traces.tree import TraceTree
from replaycheck.traces.write import dump_group

__all__ = ["Groups"]


class Groups(Sequence[Group]):
    """Groups in the order of their files; one is parsed each time it is asked for.

    Attributes:
        scored: positions that a group's requests score, by group. prompts: tokens of all its prompts. longest: of one.
    """

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._files = tuple(files)
        self._lines: list[bytes] = []  # of groups that aren't in a file
        self._file, self._start, self._size = array("i"), array("q"), array("q")
        self._names = array("Q")
        self.scored, self.prompts, self.longest = array("q"), array("q"), array("i")

    @classmethod
    def read(cls, files: Sequence[Path], check: Callable[[Group], None] = lambda group: None) -> Groups:
        """Index files; ``check`` raises for a group that can't be run.

        Raises:
            UsageError: the first problem of a file, or a group or trace that two lines have.
        """
        found = cls(files)
        traces = array("Q")
        for number, path in enumerate(found._files):
            for line in scan(path):
                if line.problems or line.group is None:
                    raise UsageError(located(path, line.number, line.problems[0]))
                check(line.group)
                traces.extend(_short(trace.id) for trace in line.group.traces)
                found._add(line.group, number, line.start, line.size)
        found._refuse_twice(found._names, "group", lambda group: [group.group])
        found._refuse_twice(traces, "trace", lambda group: [trace.id for trace in group.traces])
        return found

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Groups:
        """Groups that are in memory."""
        found = cls()
        for group in groups:
            line = dump_group(group).encode()
            found._lines.append(line)
            found._add(group, -1, len(found._lines) - 1, len(line))
        return found

    def _add(self, group: Group, file: int, start: int, size: int) -> None:
        trees = {trace.id: TraceTree(trace) for trace in group.traces}
        prompts = [trees[request.trace].starts[request.turn] + 1 for request in group.requests]
        answers = (len(trees[request.trace].turns[request.turn].tokens) - 1 for request in group.requests)
        self._file.append(file)
        self._start.append(start)
        self._size.append(size)
        self._names.append(_short(group.group))
        self.scored.append(sum(answers))
        self.prompts.append(sum(prompts))
        self.longest.append(max(prompts))

    def _refuse_twice(self, short: array[int], kind: str, names: Callable[[Group], list[str]]) -> None:
        """Names are compared by 64 bits of a hash; only if two agree are the groups read again."""
        values = np.sort(np.frombuffer(short, np.uint64)) if len(short) else np.empty(0, np.uint64)
        twice = set(values[1:][values[1:] == values[:-1]].tolist())
        if not twice:
            return
        seen: dict[str, Path] = {}
        for index, group in enumerate(self):
            path = self._files[self._file[index]]
            for name in names(group):
                if name in seen:
                    raise UsageError(f"{kind} {name!r} is in {seen[name]} and in {path}; rename one of them")
                if _short(name) in twice:
                    seen[name] = path

    def raw(self, index: int) -> bytes:
        """The line of a group."""
        if self._file[index] < 0:
            return self._lines[self._start[index]]
        with self._files[self._file[index]].open("rb") as handle:
            handle.seek(self._start[index])
            return handle.read(self._size[index])

    def parse(self, index: int) -> Group:
        """Raises :class:`UsageError` if the file was changed since it was indexed."""
        try:
            group = Group.model_validate_json(self.raw(index), strict=True)
        except ValueError:
            group = None
        if group is None or _short(group.group) != self._names[index]:
            raise UsageError(f"{self._files[self._file[index]]} was changed while the run read it; run again")
        return group

    @overload
    def __getitem__(self, index: int) -> Group: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Group, ...]: ...
    def __getitem__(self, index: int | slice) -> Group | tuple[Group, ...]:
        if isinstance(index, slice):
            return tuple(self.parse(each) for each in range(len(self))[index])
        return self.parse(range(len(self))[index])

    def __iter__(self) -> Iterator[Group]:
        return (self.parse(index) for index in range(len(self)))

    def __len__(self) -> int:
        return len(self._file)

    def with_longest_prompt(self) -> Group:
        """The first group whose prompt is the longest."""
        return self.parse(int(np.argmax(np.frombuffer(self.longest, np.int32))))


def _short(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
