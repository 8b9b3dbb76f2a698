"""The split arm: the second server plays warm's history with warm's bits, and a wrong state shows against it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.model.gguf_tiny import names
from replaycheck.subjects.choose import make_subject
from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.server.http import Client, ServerFault
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.shadow import Rules, Shadow
from replaycheck.subjects.server.llamacpp.split import pieces, replay
from replaycheck.subjects.server.llamacpp.sweep.moves import moves
from replaycheck.subjects.server.llamacpp.sweep.play import cold, table
from replaycheck.subjects.server.llamacpp.wire import Wire, force
from replaycheck.traces.vocabulary import SIZE

Serve = Callable[..., LlamaServer]

NONE: frozenset[int] = frozenset()
SPLIT = {"ctx-checkpoints": 0, "cache-ram": 0, "parallel": 1}

NAMES = (
    "first turn",
    "next turn",
    "same prompt again",
    "branch with a turn of another length",
    "edit in an early turn",
    "back to the first conversation",
)


@pytest.mark.parametrize(
    ("architecture", "options"),
    [(name, {}) for name in names() if name != "llama"] + [("kimi-linear", {"flash-attn": "on", "ubatch-size": 64})],
)
def test_split_has_warms_bits_where_cold_has_others(
    architecture: str, options: dict[str, object], serve: Serve
) -> None:
    warm = Wire(Client(serve(architecture, options).url), SIZE)
    other = Wire(Client(serve(architecture, {**options, **SPLIT}).url), SIZE)
    shadow = Shadow(Rules(slots=2, ubatch=int(str(options.get("ubatch-size", 512)))))
    differ = 0.0
    for move in moves():
        if move.name not in NAMES:
            continue
        said = warm.complete(move.prompt, len(move.answer), slot=0, grammar=force(move.answer, NONE))
        taken = shadow.ask(move.prompt, move.answer, slot=0)
        live = replay(other, move.prompt, move.answer, taken.cuts, NONE)
        mine = table(said, len(move.answer), SIZE)
        assert np.abs(mine - table(live, len(move.answer), SIZE)).max() == 0, move.name
        # One difference is enough, and a cold answer costs as much as all pieces together.
        differ = differ or np.abs(mine - cold(other, move.prompt, move.answer)).max()
    assert differ > 0


def test_tokens_that_were_decoded_are_decoded_and_an_end_among_them_is_sent_alone(serve: Serve) -> None:
    assert [(each.start, each.end, each.decoded) for each in pieces((10, 11, 12, 20, 25), 26)] == [
        (0, 10, 2),
        (12, 20, 0),
        (20, 25, 0),
    ]
    wire = Wire(Client(serve("mamba", SPLIT).url), SIZE)
    prompt = tuple(range(40, 70))
    whole = replay(wire, prompt, (65, 66), (10, 11, 12, 25), NONE)
    one_by_one = replay(wire, prompt, (65, 66), (10, 11, 12, 25), frozenset({prompt[11]}))
    assert whole.tokens == one_by_one.tokens == (65, 66) and whole.entries == one_by_one.entries


def test_a_server_that_restores_is_not_a_split_arm(serve: Serve) -> None:
    server, other = serve("mamba"), serve("mamba")
    wire = Wire(Client(other.url), 3)
    replay(wire, tuple(range(40, 90)), (65,), (), NONE)
    with pytest.raises(ServerFault, match="--ctx-checkpoints 0"):
        # Its own cut before the prompt's end and no erased slot: what was asked before is rewound to.
        replay(wire, tuple(range(40, 80)), (65,), (60,), NONE)
    options = SubjectOptions(url=server.url, settings=(("split-url", other.url),))
    with pytest.raises(EngineEnvironmentError, match="keeps checkpoints"):
        make_subject("llamacpp", options)
    third = serve("mamba2", SPLIT)
    with pytest.raises(EngineEnvironmentError, match="another model or build"):
        make_subject("llamacpp", SubjectOptions(url=server.url, settings=(("split-url", third.url),)))
    with pytest.raises(UsageError, match="leave --url"):
        make_subject("llamacpp", SubjectOptions(url=server.url, model=server.url))  # type: ignore[arg-type]
