"""The chat route: messages that become the very ids that are meant, and checkpoints at users' messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replaycheck.subjects.protocol import SubjectOptions
from replaycheck.subjects.server.engine import Ask
from replaycheck.subjects.server.http import Client, ServerFault
from replaycheck.subjects.server.llamacpp.chat import CONCATENATES, by_roles
from replaycheck.subjects.server.llamacpp.engine import LlamaCpp
from replaycheck.subjects.server.llamacpp.launch import LlamaServer
from replaycheck.subjects.server.llamacpp.learn import learn
from replaycheck.subjects.server.llamacpp.wire import Wire
from replaycheck.subjects.server.settings import ServerSettings
from replaycheck.traces.vocabulary import ASSISTANT, BOS, END, SYSTEM, USER, encode

Serve = Callable[..., LlamaServer]

HEAD = (BOS, SYSTEM, *encode("You are terse."), END, USER, *encode("Which river rose twice in a year?"), END, ASSISTANT)
ANSWER = encode("Loire.")
MORE = (*HEAD, *ANSWER, END, USER, *encode("And when, exactly, was the second time?"), END, ASSISTANT)


def test_a_prompt_is_taken_apart_at_its_roles() -> None:
    found = by_roles(MORE)
    assert found is not None and [each["role"] for each in found.messages] == ["system", "user", "assistant", "user"]
    assert [MORE[at] for at in found.users] == [USER, USER]
    for other in (MORE[:-1], MORE[1:], (BOS, 65, END, ASSISTANT), (BOS, USER, USER, END, ASSISTANT), (BOS,)):
        assert by_roles(other) is None


def test_hits_and_answers_are_those_of_the_other_route_but_for_checkpoints_at_users_messages(serve: Serve) -> None:
    client = Client(serve("mamba").url)
    wire = Wire(client, 20, "chat")
    engine = LlamaCpp(wire, ServerSettings(), learn(wire.native, SubjectOptions()))
    engine.begin("a")
    edited = (*MORE[: len(MORE) - 12], *encode("other time"), END, ASSISTANT)
    asks = [Ask(prompt, len(ANSWER), forced=tuple(ANSWER)) for prompt in (HEAD, MORE, edited)]
    found = engine.ask(asks)
    last_user = max(at for at, token in enumerate(MORE) if token == USER)
    assert [each.cached for each in found] == [each.expected for each in found]
    assert [each.cached for each in found] == [0, len(HEAD) + len(ANSWER) - 1, last_user]
    cold = engine.ask([Ask(edited, len(ANSWER), cold=True, forced=tuple(ANSWER))])[0]
    for one, two in zip(found[2].entries, cold.entries, strict=True):
        assert one and two and one[0] == pytest.approx(two[0], abs=1e-4)


def test_any_ids_go_through_a_template_that_concatenates_and_through_no_other(serve: Serve) -> None:
    cut = MORE[:-3]
    plain = Wire(Client(serve("mamba", {"chat-template": CONCATENATES}).url), 20, "chat")
    assert plain.complete(cut, 1).computed == len(cut)
    with pytest.raises(ServerFault, match="--chat-template"):
        Wire(Client(serve("mamba").url), 20, "chat").complete(cut, 1)
