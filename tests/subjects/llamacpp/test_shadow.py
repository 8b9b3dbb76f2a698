"""The integer model of the server's cache, held against the real server: every hit, by its own count, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replaycheck.model.gguf_tiny import names
from replaycheck.subjects.server.http import Client
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.options import ServerOptions
from replaycheck.subjects.server.llamacpp.shadow import Rules, Shadow
from replaycheck.subjects.server.llamacpp.sweep.moves import moves
from replaycheck.subjects.server.llamacpp.wire import Wire

DEFAULTS: Mapping[str, Any] = {"parallel": 2, "ctx-size": 4096}

OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"ctx-checkpoints": 0},
    {"ctx-checkpoints": 1},
    {"ctx-checkpoints": 2, "checkpoint-min-step": 30},
    {"ubatch-size": 16, "batch-size": 64, "ctx-checkpoints": 6, "checkpoint-min-step": 40},
    {"cache-ram": 0},
    {"cache-ram": -1, "ctx-size": 2048},
    {"kv-unified": True},
    {"cache-idle-slots": False, "slot-prompt-similarity": 0.9},
    {"slot-prompt-similarity": 0.0, "parallel": 4},
    {"cache-reuse": 8},
)


def rules(architecture: str, options: Mapping[str, Any]) -> Rules:
    return Rules.of(options, recurrent=architecture != "llama")


class Both:
    """A real server and its shadow, told the same."""

    def __init__(self, url: str, shadow: Shadow) -> None:
        self.wire, self.shadow = Wire(Client(url), 1), shadow

    def ask(self, prompt: tuple[int, ...], new: int, slot: int | None, cold: bool = False) -> tuple[Any, Any]:
        said = self.wire.complete(prompt, new, cache=not cold, slot=slot, fields={"ignore_eos": True})
        taken = self.shadow.ask(prompt, said.tokens, cached=not cold, slot=slot)
        return (said.slot, said.cached), (taken.slot, taken.hit)

    def act(self, action: str, slot: int) -> None:
        self.wire.slot_action(slot, action, None if action == "erase" else "slot.bin")  # type: ignore[arg-type]
        getattr(self.shadow, action)(slot, *(() if action == "erase" else ("slot.bin",)))


@pytest.mark.parametrize("architecture", names())
def test_hits_of_what_clients_do_are_predicted_exactly(architecture: str, serve: Callable[..., LlamaServer]) -> None:
    both = Both(serve(architecture, dict(DEFAULTS)).url, Shadow(rules(architecture, DEFAULTS)))
    seen = []
    for move in moves():
        for action in move.actions:
            both.act(action, 0)
        real, expected = both.ask(move.prompt, len(move.answer), int(move.other))
        assert real == expected, move.name
        seen.append(real[1])
    assert sum(hit > 0 for hit in seen) > 25


Step = tuple[int, int, int, int, int]
STEPS = st.lists(st.tuples(*[st.integers(0, 2**16)] * 5), min_size=4, max_size=12)


def prompts(steps: list[Step]) -> Iterator[tuple[tuple[int, ...], Step]]:
    """Prompts that begin like earlier ones, up to an edit, a cut or an end, and go on for a few or many tokens.

    Some go on as the earlier one did a few tokens later: a piece was dropped.
    """
    texts: list[tuple[int, ...]] = [()]
    for step in steps:
        which, cut, more, seed, _ = step
        base = texts[-1 - which % min(4, len(texts))]
        kept = base[: len(base) - (0 if cut % 3 else cut // 3 % (len(base) + 1))]
        draws = Random(seed)
        new = (0, 1, 2, 4, 5, 6, 30, 110)[more % 8] if kept else 5 + more % 60
        later = base[len(kept) + 3 :] if cut % 3 == 0 and cut % 2 else ()
        text = (*kept, *later, *(draws.randint(33, 126) for _ in range(new))) or (33,)
        texts.append(text[:700])
        yield texts[-1], step


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_hits_of_any_history_are_predicted_exactly(
    options: Mapping[str, Any], tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    values = {**DEFAULTS, **options}
    with LlamaServer(ServerOptions(tiny("mamba2"), {**values, "slot-save-path": f"{tmp_path}/"})) as server:
        both = Both(server.url, Shadow(rules("mamba2", values)))

        # One server for all examples: what earlier ones left in the host cache is part of the test.
        @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(STEPS)
        def check(steps: list[Step]) -> None:
            for prompt, (_, _, _, _, how) in prompts(steps):
                slot = None if how % 3 == 0 else how % values["parallel"]
                real, expected = both.ask(prompt, 1 + how % 4, slot, cold=how % 11 == 0)
                assert real == expected
                if how % 13 == 0:
                    both.act("erase", how % values["parallel"])

        check()


def test_a_host_cache_without_a_limit_keeps_as_many_tokens_as_the_context(serve: Callable[..., LlamaServer]) -> None:
    values = {"parallel": 1, "ctx-size": 768, "cache-ram": -1}
    both = Both(serve("mamba2", values).url, Shadow(rules("mamba2", values)))
    texts = [tuple(Random(seed).choices(range(33, 127), k=150)) for seed in range(8)]
    for text in texts:
        assert both.ask(text, 1, None) == ((0, 0), (0, 0))
    old, late = (both.ask((*text, 65), 1, None) for text in (texts[0], texts[-3]))
    assert old == ((0, 0), (0, 0))
    assert late[0] == late[1] and late[0][1] > 100


def test_a_saved_slot_comes_back_with_its_checkpoints(serve: Callable[..., LlamaServer]) -> None:
    both = Both(serve("mamba", dict(DEFAULTS)).url, Shadow(rules("mamba", DEFAULTS)))
    text = tuple(range(33, 93))
    both.ask(text, 3, 0)
    both.act("save", 0)
    both.act("erase", 0)
    assert both.ask(text[::-1], 1, 0) == ((0, 0), (0, 0))
    both.act("restore", 0)
    assert both.ask(text[:-2], 1, 0) == ((0, 56), (0, 56))


def test_a_checkpoint_one_token_behind_a_rewind_stays_and_has_read_another_text() -> None:
    shadow = Shadow(Rules(slots=1, ram=0))
    first, second = (40, 41, 42, 43, 44), tuple(range(50, 110))
    shadow.ask(first, (1,), slot=0)
    assert shadow.ask(second, (1,), slot=0).hit == 0
    taken = shadow.ask(second[:30] + (33,) * 20, (1,), slot=0)
    assert (taken.hit, taken.read) == (1, first[:1])
