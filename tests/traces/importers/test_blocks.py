"""Prompts of block ids as trees: exact lengths, equal ids equal tokens, shared prefixes shared turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.schema.trace import Group
from replaycheck.traces.importers import Call, Context, DraftGroup, Options, SourceFile, block_spans, grow
from replaycheck.traces.importers.finish import finish
from replaycheck.traces.tree import TokenPath, request_paths

BLOCK = 8

# Ids are chained, as engines make them: an id stands for everything before it, too.
CHAINS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=6)


def group_of(prompts: Sequence[Sequence[int]], lengths: Sequence[int], tmp_path: Path, outs: int = 4) -> Group:
    (tmp_path / "x").write_bytes(b"{}")
    draft = DraftGroup(SourceFile(tmp_path / "x"), "x")
    calls = [
        Call(tuple(block_spans(ids, length, BLOCK, "scope")), length // BLOCK, outs, "user", "s", number)
        for number, (ids, length) in enumerate(zip(prompts, lengths, strict=True))
    ]
    context = Context(Options())
    grow(draft, draft.trace("t"), calls, context.log)
    group = finish(draft, "g", "test", context)
    assert group is not None
    return group


def chained(labels: Sequence[int]) -> list[int]:
    """An id for each prefix."""
    return [int("1" + "".join(map(str, labels[: i + 1]))) for i in range(len(labels))]


def lengths_of(prompts: Sequence[Sequence[int]], tail: int) -> list[int]:
    return [BLOCK * len(ids) - tail for ids in prompts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


@given(labels=CHAINS)
def test_two_prompts_share_exactly_the_blocks_that_have_the_same_ids(labels: list[list[int]], folder: Path) -> None:
    prompts = [chained(each) for each in labels]
    paths = request_paths(group_of(prompts, lengths_of(prompts, 0), folder))
    for one, a in zip(prompts, paths, strict=True):
        for other, b in zip(prompts, paths, strict=True):
            same = sum(x == y for x, y in zip(one, other, strict=False))
            shared = shared_turn_tokens(a, b)
            # Where one ends and the other doesn't, the last shared block is whole, too; else equal prompts.
            assert min(shared, BLOCK * same) >= BLOCK * same - (1 if one == other else 0)
            if one != other:
                assert shared == max(BLOCK * same, 1)


def shared_turn_tokens(a: TokenPath, b: TokenPath) -> int:
    """Tokens up to the end of the last turn that both prompts have."""
    ends = [x.end for x, y in zip(a.nodes[:-1], b.nodes[:-1], strict=False) if x.turn == y.turn]
    return max(ends, default=1)


@given(labels=CHAINS, tail=st.integers(0, BLOCK - 4))
def test_prompts_have_the_length_of_the_source(labels: list[list[int]], tail: int, folder: Path) -> None:
    prompts = [chained(each) for each in labels]
    if tail:
        # A partial block has an id of its own.
        prompts = [[*ids[:-1], -ids[-1]] for ids in prompts]
    lengths = lengths_of(prompts, tail)
    paths = request_paths(group_of(prompts, lengths, folder))
    for path, ids, length in zip(paths, prompts, lengths, strict=True):
        goes_on = any(other[: len(ids)] == ids and len(other) > len(ids) for other in prompts)
        # One token more where another prompt goes on: the answer's role token is nobody's.
        assert path.prompt - length == (1 if goes_on else 0)
        assert len(path.answer) == 4


@given(first=st.integers(), second=st.integers(), block=st.integers(4, 40))
def test_the_tokens_of_a_block_are_the_same_in_every_prompt(first: int, second: int, block: int, folder: Path) -> None:
    spans = [block_spans([first, second], 2 * block, block, "scope"), block_spans([first], block, block, "scope")]
    draft = DraftGroup(SourceFile(folder / "x"), "x")
    (folder / "x").write_bytes(b"{}")
    context = Context()
    for number, each in enumerate(spans):
        call = Call(tuple(each), 1, 1, "user", f"s{number}", 0)
        grow(draft, draft.trace(f"t{number}"), [call], context.log)
    group = finish(draft, "g", "test", context)
    assert group is not None
    long, short = request_paths(group)
    # BOS, role … END, role: what lies between is the block's own.
    assert long.tokens[2 : block - 2] == short.tokens[2 : block - 2]


def test_a_partial_block_is_the_start_of_the_whole_one(tmp_path: Path) -> None:
    paths = request_paths(group_of([[7, 8], [7, 8]], [2 * BLOCK, BLOCK + 4], tmp_path))
    assert paths[1].prompt == BLOCK + 5
    assert paths[0].tokens[: BLOCK + 3] == paths[1].tokens[: BLOCK + 3]


@pytest.mark.parametrize(("length", "prompt"), [(1, 4), (2, 4), (3, 4), (4, 4), (5, 5), (63, 63), (64, 64), (65, 65)])
def test_the_shortest_prompts(length: int, prompt: int, tmp_path: Path) -> None:
    # BOS, role, END and the answer's role: a prompt has at least four tokens.
    count = -(-length // BLOCK)
    (path,) = request_paths(group_of([list(range(count))], [length], tmp_path))
    assert path.prompt == prompt


@pytest.mark.parametrize(("out", "scored"), [(0, 1), (1, 1), (2, 2), (64, 64)])
def test_an_answer_scores_as_many_tokens_as_it_has(out: int, scored: int, tmp_path: Path) -> None:
    (path,) = request_paths(group_of([[1]], [BLOCK], tmp_path, out))
    assert len(path.answer) == scored
