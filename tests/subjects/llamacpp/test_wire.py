"""What is asked of llama.cpp's server and what its answers mean, on the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

from replaycheck.errors import EngineEnvironmentError, UsageError
from replaycheck.subjects.server.http import Client, ServerFault
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.options import ServerOptions
from replaycheck.subjects.server.llamacpp.wire import Completion, Wire, force
from replaycheck.traces.vocabulary import ASSISTANT, BOS, END, SIZE, USER, encode

PROMPT = [BOS, USER, *encode("Which river rose twice in one year, and when?"), END, ASSISTANT]
ANSWER = (*encode('The "Loire",\n[1] \\ twice.'), END)


def logprobs(said: Completion) -> np.ndarray:
    """[tokens, vocabulary]"""
    return np.array([[entry[1][token] for token in range(SIZE)] for entry in said.entries if entry])


def forced(wire: Wire, prompt: list[int], answer: tuple[int, ...], **how: object) -> Completion:
    return wire.complete(prompt, len(answer), grammar=force(answer, frozenset({END})), **how)  # type: ignore[arg-type]


def test_a_forced_answer_is_what_a_chain_of_single_tokens_says_and_stores_one_checkpoint_less_a_token(
    wire: Wire,
) -> None:
    whole = forced(wire, PROMPT, ANSWER, cache=False, slot=1)
    assert whole.tokens == ANSWER and whole.stopped == "eos"
    chain = [wire.complete([*PROMPT, *ANSWER[:at]], 1, slot=0) for at in range(len(ANSWER))]
    assert [each.cached for each in chain] == [0, *range(len(PROMPT), len(PROMPT) + len(ANSWER) - 1)]
    difference = np.abs(logprobs(whole) - np.concatenate([logprobs(each) for each in chain]))
    assert difference.max() == 0
    # What the model thought of the tokens, not what the grammar left of it.
    # The server's own softmax in fp32: 144 additions with a rounding of 2^-24, and logarithms of up to 16 with one of 2^-21.
    assert np.abs(np.exp(logprobs(whole)).sum(1) - 1).max() < 144 * 2.0**-24


def test_an_end_can_be_forced_only_as_the_last_token() -> None:
    ends = frozenset({END})
    assert force([65, 66], ends) == "root ::= <[65]> <[66]>"
    assert force([65, END], ends) == "root ::= <[65]>"
    assert force([65, END, 66], ends) is None
    assert force([END], ends) is None


def test_both_routes_say_the_same_and_report_the_same_hits(wire: Wire) -> None:
    other = Wire(wire.client, SIZE, "openai")
    first = forced(wire, PROMPT, ANSWER, slot=0)
    again = [forced(route, [*PROMPT, *ANSWER, USER, 72, 105], ANSWER, slot=0) for route in (wire, other)]
    assert first.cached == 0 and first.computed == len(PROMPT)
    # In place: all but the last answer token, which was never an input. The second time behind the checkpoint at end − 4.
    length = len(PROMPT) + len(ANSWER)
    assert [each.cached for each in again] == [length - 1, length + 3 - 4]
    assert again[0].tokens == again[1].tokens == ANSWER
    assert np.abs(logprobs(again[0]) - logprobs(again[1])).max() < 1e-4


def test_a_cold_request_on_another_slot_leaves_the_text_under_test_alone(wire: Wire) -> None:
    forced(wire, PROMPT, ANSWER, slot=0)
    cold = forced(wire, PROMPT, ANSWER, cache=False, slot=1)
    warm = forced(wire, PROMPT, ANSWER, slot=0)
    assert (cold.cached, warm.cached) == (0, len(PROMPT) - 4)


def test_a_slot_is_saved_emptied_and_restored(wire: Wire) -> None:
    first = forced(wire, PROMPT, ANSWER, slot=0)
    assert wire.slot_action(0, "save", "a.bin")["n_saved"] == len(PROMPT) + len(ANSWER) - 1
    wire.slot_action(0, "erase")
    assert forced(wire, PROMPT, ANSWER, cache=True, slot=0).cached == 0
    wire.slot_action(0, "restore", "a.bin")
    again = forced(wire, PROMPT, ANSWER, slot=0)
    assert (again.cached or 0) > 0
    assert np.abs(logprobs(again) - logprobs(first)).max() < 1e-4


def mocked(answer: object, status: int = 200) -> Wire:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, content=json.dumps(answer).encode()))
    return Wire(Client("http://127.0.0.1:1", transport=transport), 3)


def test_an_accepted_draft_has_no_log_probability() -> None:
    said = [
        {"id": 7, "logprob": 0.0, "top_logprobs": []},
        {"id": 8, "logprob": -0.5, "top_logprobs": [{"id": 8, "logprob": -0.5}, {"id": 9, "logprob": None}]},
    ]
    found = mocked({"tokens": [7, 8], "completion_probabilities": said, "timings": {"cache_n": 3}}).complete([1], 2)
    assert found.entries == (None, (-0.5, {8: -0.5}))
    assert found.cached == 3 and found.computed is None


@pytest.mark.parametrize("answer", [{"content": "hello"}, [], None, {"tokens": [1], "completion_probabilities": [{}]}])
def test_another_servers_answer_is_no_answer(answer: object) -> None:
    with pytest.raises(ServerFault, match=r"the answer lacks what llama\.cpp's server says"):
        mocked(answer).complete([1], 1)


def test_a_model_that_does_not_load_is_an_environment_error(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF, but not quite")
    with pytest.raises(EngineEnvironmentError, match="didn't come up"):
        LlamaServer(ServerOptions(tmp_path / "bad.gguf"))
    with pytest.raises(UsageError, match="no option 'ctx'"):
        LlamaServer(ServerOptions(tmp_path / "bad.gguf", {"ctx": 1}))


def test_the_server_ends_with_its_owner(serve: Callable[..., LlamaServer]) -> None:
    server = serve("mamba", {"parallel": 1})
    assert server.running
    server.close()
    assert not server.running
    with pytest.raises(EngineEnvironmentError, match="is the server up"):
        Wire(Client(server.url), 3).complete([1], 1)
