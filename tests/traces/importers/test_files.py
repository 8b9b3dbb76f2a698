"""Files from outside: every fault is named with file, line and field, and none takes the memory or opens anything."""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replaycheck.errors import UsageError
from replaycheck.traces.importers import Context, SourceFile, choose, import_groups, source
from replaycheck.traces.importers.finish import MAX_GROUP
from tests.traces.importers import formats as made
from tests.traces.importers.conftest import Import

GOOD = b'{"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}]}'


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbf" + GOOD, GOOD + b"\r\n" + GOOD + b"\r\n", b"\n\n" + GOOD, GOOD.replace(b", ", b",\n  ")],
    ids=["byte order mark", "CRLF", "blank lines", "one value on several lines"],
)
def test_ways_to_write_a_file(data: bytes, do: Import) -> None:
    assert do("auto", data)[0].traces[0].turns[1].text == "Ho."


BROKEN: list[tuple[str, bytes, str]] = [
    ("invalid UTF-8", GOOD + b'\n{"a": "\xff"}\n', r":2: byte 0xff isn't UTF-8"),
    ("UTF-16", GOOD.decode().encode("utf-16"), r":1: the file starts with a UTF-16"),
    ("cut off", GOOD + b"\n" + GOOD[:40], r":2: malformed JSON, .* at column"),
    ("NaN", GOOD + b'\n{"messages": NaN}', r":2: malformed JSON, NaN is no JSON"),
    ("infinite", GOOD + b'\n{"messages": 1e999}', r":2: malformed JSON, the number 1e999 is too large"),
    ("many digits", GOOD + b'\n{"messages": ' + b"9" * 5000 + b"}", r":2: malformed JSON, Exceeds the limit"),
    ("deep", GOOD + b"\n" + b"[" * 100_000, r":2: malformed JSON, nested too deeply"),
    ("a list on a line", GOOD + b"\n[1]", r":2: \[1\] isn't an object"),
    ("a wrong role", GOOD + b"\n" + GOOD.replace(b"user", b"robot"), r":2: messages\[0\].role: 'robot' is unknown"),
    ("no content", b'{"messages": [{"content": "x"}]}', r":1: messages\[0\].role: is missing"),
    ("a number for words", GOOD.replace(b'"Hi."', b"7"), r":1: messages\[0\].content: 7 isn't a list"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_fault_is_named_with_file_and_line(data: bytes, message: str, do: Import) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        do("openai", data)
    assert str(caught.value).startswith(str(do.folder))


def change(*path: str | int, to: object) -> Any:
    def spoil(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return spoil


WRONG: list[tuple[str, object, Any, str]] = [
    (
        "weka",
        made.FILES["weka"],
        change("requests", 0, "hash_ids", to=[1]),
        r"requests\[0\].hash_ids: 1 ids for 'in' = 130",
    ),
    (
        "weka",
        made.FILES["weka"],
        change("requests", 0, "hash_ids", to=[1, 2.5]),
        r"hash_ids\[1\]: 2.5 isn't an integer",
    ),
    (
        "weka",
        made.FILES["weka"],
        change("requests", 0, "in", to=10**30),
        r"\[0\].in: 1000.* allowed: an integer from 1",
    ),
    ("weka", made.FILES["weka"], change("requests", 0, "out", to=-1), r"requests\[0\].out: -1 isn't allowed"),
    ("weka", made.FILES["weka"], change("hash_id_scope", to="x"), r"hash_id_scope: 'x' isn't allowed"),
    ("mooncake", made.FILES["mooncake"], change(0, "hash_ids", to=[1]), r"hash_ids: 1 ids for 'input_length' = 600"),
    ("mooncake", made.FILES["mooncake"], change(0, "input_length", to=0), r"input_length: 0 isn't allowed"),
    ("bailian", made.FILES["bailian"], change(0, "chat_id", to="x"), r"chat_id: 'x' isn't allowed"),
    ("tracelab", made.FILES["tracelab"], change(0, "prefix_tokens", to=101), r"prefix_tokens: 101 isn't allowed"),
    ("sglang", made.FILES["sglang"], change(0, "input_tokens", to=[]), r"input_tokens: is empty"),
    ("vllm", made.FILES["vllm"], change("num_conversations", to=10**7), r"num_conversations: 10000000 isn't allowed"),
    ("oasst", made.FILES["oasst"], change(0, "prompt", "role", to="robot"), r"prompt.role: 'robot' is unknown"),
    (
        "sharegpt",
        made.FILES["sharegpt"],
        change(0, "conversations", 0, "from", to="me"),
        r"conversations\[0\].from: 'me'",
    ),
    ("claude-code", made.FILES["claude-code"], change(3, "uuid", to="u1"), r":4: uuid: 'u1' is there twice"),
    ("claude-code", made.FILES["claude-code"], change(3, "timestamp", to="now"), r":4: timestamp: 'now' is no time"),
    ("codex", made.FILES["codex"], change(2, "payload", "role", to="robot"), r":3: payload.role: 'robot' is unknown"),
    ("openhands", made.FILES["openhands"], change(0, "history", 5, to=7), r"history\[5\]: 7 isn't an object"),
    ("atif", made.FILES["atif"], change("steps", 2, "source", to="x"), r"steps\[2\].source: 'x' is unknown"),
    ("mtbench", made.FILES["mtbench"], change(0, "turns", to=["a", 7]), r"turns\[1\]: isn't a string"),
    (
        "dag_jsonl",
        made.FILES["dag_jsonl"],
        change(1, "session_id", to="root"),
        r":2: session_id: 'root' is there twice",
    ),
    ("otel", made.FILES["otel"], change(0, "startTimeUnixNano", to="x"), r"startTimeUnixNano: isn't a count of ns"),
    ("azure", "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,5,5\n", lambda v: None, r":2: TIMESTAMP: 'now' is no time"),
    (
        "azure",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,x,5\n",
        lambda v: None,
        r":2: ContextTokens: 'x' isn't",
    ),
    ("azure", "TIMESTAMP,ContextTokens\n", lambda v: None, r":1: the columns are"),
]


@pytest.mark.parametrize(("name", "value", "spoil", "message"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_a_wrong_field_is_named(name: str, value: object, spoil: Any, message: str, do: Import) -> None:
    spoiled = copy.deepcopy(value)
    spoil(spoiled)
    with pytest.raises(UsageError, match=message):
        do(name, spoiled)


HOSTILE: list[object] = [None, 7, -1, 2.5, 10**30, 1e300, True, "x", "", [], [7], [[]], [{}], {}, {"x": 1}, "\ud800"]
SOURCES = {name: value for name, value in made.FILES.items() if not isinstance(value, str)}


def places(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something stands in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from places(inner, (*above, key))


def refusal(do: Import, format_: str, value: object) -> str | None:
    """Why it isn't imported; None if it is, into one group at least."""
    try:
        assert do(format_, value, max_tokens=5000)
    except UsageError as error:
        return str(error)
    return None


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("name", SOURCES)
def test_whatever_stands_anywhere_is_imported_or_refused_with_a_reason(
    name: str, do: Import, data: st.DataObject
) -> None:
    spoiled = copy.deepcopy(SOURCES[name])
    place = data.draw(st.sampled_from(list(places(spoiled))))
    change(*place, to=data.draw(st.sampled_from(HOSTILE)))(spoiled)
    for format_ in (name, "auto"):
        refused = refusal(do, format_, spoiled)
        assert refused is None or "source0.json" in refused


def test_sizes_are_limited(do: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    path = do.file(GOOD)
    monkeypatch.setattr(source, "MAX_LINE", 40)
    with pytest.raises(UsageError, match=r":1: the line is longer than 40 bytes"):
        list(SourceFile(path).lines())
    monkeypatch.setattr(source, "MAX_JSON", 40)
    with pytest.raises(UsageError, match=r":1: the file is one JSON value of more than 40 bytes"):
        SourceFile(path).whole()


def test_a_length_takes_no_memory_before_it_is_checked(do: Import) -> None:
    rows = [made.round_(n, 9_000_000, 0) for n in range(3)]
    tracemalloc.start()
    with pytest.raises(UsageError, match=rf"27000\d\d\d tokens; a group has at most {MAX_GROUP}; use --scale"):
        do("tracelab", rows)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert do("tracelab", rows, max_tokens=1000)


def test_folders_missing_files_and_a_file_twice(do: Import) -> None:
    with pytest.raises(UsageError, match="isn't a plain file"):
        do("auto", do.folder)
    with pytest.raises(UsageError, match="No such file"):
        do("auto", do.folder / "none")
    path = do.file(GOOD)
    with pytest.raises(UsageError, match="is given twice"):
        do("auto", path, path)


def test_nothing_to_import_says_why(do: Import) -> None:
    with pytest.raises(UsageError, match="nothing to import: dropped 1: conversation without an answer"):
        do("openai", {"messages": [{"role": "user", "content": "Hi."}]})
    with pytest.raises(UsageError, match="the file is empty"):
        do("auto", b"\n")


def lines(count: int, path: Path) -> Path:
    path.write_bytes((GOOD + b"\n") * count)
    return path


def peak(path: Path) -> int:
    """Bytes at the most while a file is imported, group by group."""
    groups: Iterator[object] = import_groups(choose("auto", [path]), Context())
    tracemalloc.start()
    for _ in groups:
        pass
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def test_memory_does_not_grow_with_the_number_of_lines(tmp_path: Path) -> None:
    peak(lines(5, tmp_path / "warm-up"))
    few, many = peak(lines(20, tmp_path / "few")), peak(lines(1000, tmp_path / "many"))
    # Fifty times the lines; what differs is the reader's buffers.
    assert many < 2 * few
